# What the tests of `exos load` against nginx have in common; to be sourced, as ../common.sh is.
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# configure_nginx HTTP SERVER: it serves $work/site from side a of the lab, with these directives in its blocks "http" and "server".
configure_nginx() {
    mkdir -p "$work/nginx"
    cat >"$work/nginx/conf" <<END
daemon off; master_process off; worker_rlimit_nofile 16384; pid $work/nginx/pid; error_log $work/nginx/error;
events { worker_connections 8192; }
http { root $work/site; $1
    client_body_temp_path $work/nginx/a; proxy_temp_path $work/nginx/b; fastcgi_temp_path $work/nginx/c;
    uwsgi_temp_path $work/nginx/d; scgi_temp_path $work/nginx/e;
    server { $2 }
    server { listen 10.10.0.1:8; access_log off; return 204; } }
END
    chmod -R a+rX "$work"
}
# settled: all that nginx has answered is in its log. It writes a line when the client may have its answer already, but before it looks at
# another request.
settled() { client curl -sf -m 60 -o /dev/null http://10.10.0.1:8/; }
# start_nginx [COMMAND...]: its process, which this command may start, is $peer; it answers.
start_nginx() {
    "$exos" lab exec --name "$lab" a -- "$@" nginx -c "$work/nginx/conf" >/dev/null 2>&1 & peer=$!
    await client curl -sf -m 20 -o /dev/null http://10.10.0.1/small || { bad "nginx starts" "$(cat "$work/nginx/error")"; exit 1; }
}
