#!/usr/bin/env bash
# FastCGI applications behind the server, on the lab wire over packets and over the kernel's sockets: one of ours that behaves
# well and badly (application.py, fastcgi.py), and php-fpm, whose answers are compared with those that nginx gives of it. Prints
# "ok NAME", "not ok NAME: why" and "SKIPPED: ..." lines.
#
#   tests/fastcgi/fastcgi.sh PATH/TO/exos
#
# Everything happens in namespaces of its own; what is started is ended by its id. Nothing here judges how fast it is.
. "$(dirname "$0")/../common.sh"
need_root "FastCGI over AF_XDP"
need_programs "FastCGI" python3 curl
be_alone "$@"
begin
lab=fastcgi-$$
others=()
# leave PID...: asked to end, so that those with processes of their own end these; without asking after ten seconds.
leave() {
    local pid
    for pid; do is_ours "$pid" && kill -TERM "$pid" 2>/dev/null; done
    for pid; do
        for _ in $(seq 100); do [[ $(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null) == [Z] ]] && break; sleep 0.1; done
        end "$pid"
    done
}
cleanup() {
    # shellcheck disable=SC2086
    leave ${others[*]}
    # shellcheck disable=SC2086
    end $server
    "$exos" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$work"
}
# beside COMMAND...: runs beside the server, in its side of the wire, until the end.
beside() { "$exos" lab exec --name "$lab" a -- "$@" >>"$work/beside" 2>&1 </dev/null & others+=($!); }

mkdir "$work/site" && chmod 755 "$work"
# "word", by openssl passwd -5.
echo 'name:$5$salt$h/7Zr.6Jk/Yek5pgiWNJ/ymZJAZLBbwl.Q90ZedYE67' >"$work/users"
echo static >"$work/site/static.txt"
cat >"$work/serve.toml" <<END
[log]
file = "access.log"
[[site]]
root = "site"
[[site.fastcgi]]
path = "/app/*"
to = "$work/app.sock"
connections = 12
body = "4MiB"
[[site.fastcgi]]
path = "/hasty/*"
to = "$work/app.sock"
timeout = "2s"
[[site.fastcgi]]
path = "/keep/*"
to = "127.0.0.1:9100"
keep = 2
[[site.fastcgi]]
path = "/nobody/*"
to = "127.0.0.1:9101"
[[site.fastcgi]]
path = "/closed/*"
to = "$work/app.sock"
[[site.access]]
path = "/closed/*"
rules = ["deny all"]
[[site.access]]
path = "/app/secret/*"
rules = ["deny all"]
[[site.access]]
path = "/app/users/*"
users = "$work/users"
[[site.fields]]
path = "/app/*"
set = { X-Rule = "yes" }
[[site.redirect]]
from = "/app/old"
to = "/static.txt"
END

# behave WHERE ADDRESS: the application of ours, which behaves well and badly.
behave() {
    about="$1: "
    : >"$work/app.log"
    if client python3 "$here/fastcgi.py" "$2" 80 "$work/app.log" "$work/err" "$work/access.log"; then :; else failures=$((failures + 1)); fi
    about=
}

lab_up || { bad "lab up"; exit 1; }
inside a -- ip link set lo up
wire=$(client ip -br link | grep -v '^lo' | cut -d' ' -f1 | cut -d@ -f1)
beside python3 "$here/application.py" "$work/app.sock" "$work/app.log"
beside python3 "$here/application.py" 9100 "$work/app.log"
await test -S "$work/app.sock"
await inside a -- bash -c '</dev/tcp/127.0.0.1/9100'
if launch_in_lab --config "$work/serve.toml" --link "xdp:$wire" --address 10.10.0.10/24 --json; then
    behave packets 10.10.0.10
    stop; same "packets: it stops in order" 0 $?
    has "packets: and has counted" '"fastcgi_connections":' "$(tail -1 "$work/out")"
else
    bad "the server starts" "$(cat "$work/err")"
fi
if launch_in_lab --config "$work/serve.toml" --sockets --json; then
    behave sockets 10.10.0.1
    stop; same "sockets: it stops in order" 0 $?
else
    bad "the server starts on sockets" "$(cat "$work/err")"
fi

# php-fpm, beside nginx.
fpm=$(command -v php-fpm || printf '%s\n' /usr/sbin/php-fpm*)
[ -x "$fpm" ] || { echo "SKIPPED: php-fpm: not installed (apt-get install php-fpm)"; exit $failures; }
command -v nginx >/dev/null || { echo "SKIPPED: php-fpm: nginx is not installed (apt-get install nginx)"; exit $failures; }
php=$work/php && mkdir -p "$php/sub" && chmod -R 755 "$php"
echo '<?php echo "index of ", $_SERVER["SCRIPT_NAME"], "\n";' | tee "$php/index.php" >"$php/sub/index.php"
# What a server says of itself and of the connection is its own.
echo '<?php echo $_SERVER["APP_ENV"], "/", $_SERVER["APP_DEBUG"];' >"$php/parameters.php"
cat >"$php/say.php" <<'END'
<?php
header("Content-Type: text/plain");
$own = ["SERVER_SOFTWARE", "REMOTE_PORT", "REQUEST_TIME", "REQUEST_TIME_FLOAT", "HTTP_CONNECTION", "SERVER_PORT", "SERVER_ADDR", "HTTPS", "FCGI_ROLE", "USER", "HOME", "PATH_TRANSLATED", "PATH_INFO",
    "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_EXPECT", "HTTP_TRANSFER_ENCODING", "REMOTE_USER", "AUTH_TYPE"];
ksort($_SERVER);
foreach ($_SERVER as $name => $value) if (!in_array($name, $own)) echo "$name=", is_array($value) ? implode(",", $value) : $value, "\n";
echo "PATH_INFO=", $_SERVER["PATH_INFO"] ?? "", "\n", "GET ", json_encode($_GET), " POST ", json_encode($_POST), " COOKIE ", json_encode($_COOKIE), "\n";
foreach ($_FILES as $name => $file) echo "$name $file[name] $file[size] ", md5_file($file["tmp_name"]), "\n";
echo "body ", strlen(file_get_contents("php://input")), " ", md5(file_get_contents("php://input")), "\n";
END
cat >"$php/answers.php" <<'END'
<?php
switch ($_GET["what"]) {
    case "status": http_response_code(418); echo "tea"; break;
    case "redirect": header("Location: /elsewhere?a=b", true, 303); break;
    case "none": http_response_code(204); break;
    case "cookies": setcookie("a", "1"); setcookie("b", "2"); header("X-Mixed: y"); echo "cookies"; break;
    case "length": header("Content-Length: 5"); echo "12345"; break;
    case "long": for ($n = 0; $n < 100000; $n++) echo "line $n of a long answer\n"; break;
    case "empty": break;
    case "flushed": for ($n = 0; $n < 5; $n++) { echo "part $n\n"; flush(); usleep(20000); } break;
    case "bytes": header("Content-Type: application/octet-stream"); for ($n = 0; $n < 70000; $n++) echo chr($n % 256); break;
    case "fatal": ini_set("display_errors", "0"); nowhere(); break;
}
END
printf '[global]\nerror_log=%s\n[www]\nlisten=%s\nlisten.mode=0666\nuser=root\ngroup=root\npm=static\npm.max_children=4\n' "$work/fpm.log" "$work/fpm.sock" >"$work/fpm.conf"
beside "$fpm" -F -R -y "$work/fpm.conf"
cat >"$work/nginx.conf" <<END
user root; daemon off; error_log $work/nginx.log; pid $work/nginx.pid; events {}
http {
    access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
    client_max_body_size 8m;
    server {
        listen 8000; root $php; index index.php;
        location ~ [^/]\\.php(/|\$) {
            fastcgi_split_path_info ^(.+?\\.php)(/.*)\$;
            if (!-f \$document_root\$fastcgi_script_name) { return 404; }
            include /etc/nginx/fastcgi_params;
            fastcgi_param SERVER_NAME \$host;
            fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
            fastcgi_param PATH_INFO \$fastcgi_path_info;
            fastcgi_pass unix:$work/fpm.sock;
        }
    }
}
END
beside nginx -c "$work/nginx.conf"
await test -S "$work/fpm.sock"
await inside a -- bash -c '</dev/tcp/10.10.0.1/8000'

# answer URL ARGUMENTS...: what curl gets, without what differs between any two servers.
answer() {
    local url=$1; shift
    client curl -sS -m 60 -D "$work/head" -o "$work/body" --path-as-is -H "Host: here.test" "$@" "$url" 2>&1
    tr -d '\r' <"$work/head" | sed -E 's/^[^: ]+:/\L&/; s/ +$//' | grep -vE '^(date|server|connection|transfer-encoding|keep-alive):' | sort
    [[ " $* " != *" -I "* ]] || return 0
    sha256sum <"$work/body"
    head -c 3000 "$work/body"
}
# kept: how many connections to php-fpm the server has.
kept() { inside a -- ss -xH state established 2>/dev/null | grep -c "$work/fpm.sock"; }
# alike NAME PATH ARGUMENTS...: the server says what nginx says.
alike() {
    local name=$1 path=$2 theirs ours; shift 2
    theirs=$(answer "http://10.10.0.1:8000$path" "$@" | tr -d '\0')
    ours=$(answer "$url$path" "$@" | tr -d '\0')
    if [ "$theirs" = "$ours" ]; then ok "$name"; else bad "$name" "$(diff <(echo "$theirs") <(echo "$ours"))"; fi
}
head -c 2000000 /dev/urandom >"$work/upload"
{
    printf -- '--BOUNDARY\r\nContent-Disposition: form-data; name="file"; filename="name"\r\n\r\n'
    cat "$work/upload"
    printf -- '\r\n--BOUNDARY--\r\n'
} >"$work/form"
# sourceless NAME URL: there is an answer, and no script's source in it.
sourceless() {
    local code
    code=$(client curl -sS -m 60 --path-as-is -o "$work/page" -w '%{http_code}' "$2" 2>&1)
    if [[ $code =~ ^(200|301|403)$ ]] && ! grep -qF '<?php' "$work/page"; then ok "$1 does not show its source"; else bad "$1 does not show its source" "$code"; fi
}
compare() {
    local what
    alike "an index" /
    alike "an index below" /sub/
    alike "a script" /say.php
    alike "with more behind it and a query" "/say.php/a/b.php/c?x=1&y%5B%5D=2&z=%20"
    alike "with fields" /say.php -H "Cookie: a=1; b=2" -H "Accept-Language: de" -H "X-Forwarded-For: 1.2.3.4" -H "Proxy: evil" -A agent -e http://a.test/
    alike "with a password" /say.php -u name:word
    alike "a form" /say.php -d "a=1&b=2"
    alike "a form in chunks" /say.php -H "Transfer-Encoding: chunked" -d "a=1&b=2"
    alike "an upload" /say.php -H "Content-Type: multipart/form-data; boundary=BOUNDARY" --data-binary "@$work/form"
    alike "PUT" /say.php/put -T "$work/upload" -H "Expect:"
    alike "HTTP/1.0" /say.php --http1.0
    alike "DELETE" /say.php -X DELETE
    for what in status redirect none cookies length long empty flushed bytes fatal; do alike "$what" "/answers.php?what=$what"; done
    alike "HEAD" "/answers.php?what=cookies" -I
    for what in /none.php /none.php/x /../say.php%00; do
        same "$what is refused as by nginx" "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' --path-as-is "http://10.10.0.1:8000$what")" "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' --path-as-is "$url$what")"
    done
    for what in /say.php /sub/../say.php /%73ay.php /index.php / /sub/ /sub/index.php /say.php/; do
        sourceless "$what" "$url$what"
    done
}
common=("$php" --fastcgi ".php=$work/fpm.sock")
if launch_in_lab "${common[@]}" --link "xdp:$wire" --address 10.10.0.10/24; then
    url=http://10.10.0.10 about="php-fpm over packets: "; compare; about=
    stop; same "php-fpm over packets: it stops in order" 0 $?
else
    bad "the server starts" "$(cat "$work/err")"
fi
if launch_in_lab "${common[@]}" --sockets; then
    url=http://10.10.0.1 about="php-fpm over sockets: "; compare; about=
    stop; same "php-fpm over sockets: it stops in order" 0 $?
else
    bad "the server starts on sockets" "$(cat "$work/err")"
fi
if launch_in_lab "${common[@]}" --link "xdp:$wire" --address 10.10.0.10/24 --in-kernel --json; then
    url=http://10.10.0.10
    # answered: what the kernel has answered by now: SYNs and requests.
    answered() {
        local before; before=$(grep -c '^{' "$work/out")
        kill -USR1 "$server"
        await eval '[ "$(grep -c "^{" "$work/out")" -gt '"$before"' ]'
        sed -n '$s/.*"link_xdp_answered":\([0-9]*\).*/\1/p' "$work/out"
    }
    # many PATH: one request again and again, over one connection; gives how many of them the kernel has answered, and its SYN.
    many() { local before; before=$(answered); client curl -sS -m 60 -o /dev/null "$url$1#[1-40]"; echo $(($(answered) - before)); }
    echo static >"$php/plain.txt"
    if await eval '[ "$(many /plain.txt)" -ge 20 ]'; then ok "the kernel answers documents beside scripts"; else bad "the kernel answers documents beside scripts" "$(many /plain.txt)"; fi
    for what in /say.php / /say.php/more; do
        count=$(many "$what")
        if [ "$count" -le 1 ]; then ok "the kernel answers nothing of $what"; else bad "the kernel answers nothing of $what" "$count answers"; fi
    done
    stop
fi
printf '[[site]]\nroot = "php"\n[[site.fastcgi]]\nextension = ".php"\nto = "%s"\nparameters = { APP_ENV = "of the rule", APP_DEBUG = "" }\n[[site.redirect]]\nfrom = "/index.php"\nto = "/"\n' "$work/fpm.sock" >"$work/moved.toml"
if launch_in_lab --config "$work/moved.toml" --sockets; then
    sourceless "an index that is redirected to its directory" http://10.10.0.1/
    same "it is run" 200 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' http://10.10.0.1/)"
    same "scripts have the parameters of their rule" "of the rule/" "$(client curl -sS -m 60 http://10.10.0.1/parameters.php -H 'APP-ENV: of a client')"
    same "and its own address leads there" 301 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' http://10.10.0.1/index.php)"
    stop
else
    bad "the server starts with a script that is redirected" "$(cat "$work/err")"
fi
# A front, which finds in REQUEST_URI what it is asked for, beside nginx with try_files; then a reload that has other rules.
mkdir -p "$php/blog/empty" "$php/blog/listed" && cp "$php/say.php" "$php/blog/front.php" && echo document >"$php/blog/page.html" && echo index >"$php/blog/listed/index.html"
sed "s,location ~ ,location /blog { try_files \$uri \$uri/ /blog/front.php\$is_args\$args; }\n&," "$work/nginx.conf" >"$work/front.conf"
sed -i "s/listen 8000/listen 8001/; s/nginx.pid/front.pid/; s/index index.php/index index.php index.html/" "$work/front.conf"
beside nginx -c "$work/front.conf"
await inside a -- bash -c '</dev/tcp/10.10.0.1/8001'
front() { printf '[[site]]\nroot = "php"\n[[site.fastcgi]]\nextension = ".php"\nto = "%s"\n%s\n' "$work/fpm.sock" "$1" >"$work/front.toml"; }
front 'front = "/blog/front.php"
keep = 2
[[site.access]]
path = "/blog/front.php"
users = "'"$work/users"'"'
if launch_in_lab --config "$work/front.toml" --sockets; then
    url=http://10.10.0.1
    of_documents='^(last-modified|etag|accept-ranges|content-type|vary):'
    for what in "/blog/2026/a%20title?x=1" /blog/none.html/more/ /blog/page.html /blog/listed/ /say.php/x; do
        theirs=$(answer "http://10.10.0.1:8001$what" -u name:word | grep -vE "$of_documents")
        ours=$(answer "$url$what" -u name:word | grep -vE "$of_documents")
        same "a front as of nginx: $what" "$theirs" "$ours"
    done
    # code PATH ARGUMENTS...
    code() { client curl -sS -m 60 -o /dev/null -w '%{http_code}' --path-as-is "${@:2}" "$url$1"; }
    same "a front is closed where its script is" "401 401" "$(code /blog/2026) $(code /blog/2026 -u name:wrong)"
    same "a script that is not there is nothing, too" 200 "$(code /blog/none.php -u name:word)"
    same "what is elsewhere is none of its" 404 "$(code /none)"
    same "a directory without an index neither" 403 "$(code /blog/empty/)"
    await eval '[ "$(kept)" = 1 ]'
    same "one connection is kept" 1 "$(kept)"
    front ''
    kill -HUP "$server"
    if await eval '[ "$(kept)" = 0 ]'; then ok "a reload closes what is kept no more"; else bad "a reload closes what is kept no more" "$(kept)"; fi
    same "the front is no more" 404 "$(code /blog/2026)"
    stop
else
    bad "the server starts with a front" "$(cat "$work/err")"
fi
printf '[[site]]\nroot = "php"\n[[site.fastcgi]]\nextension = ".php"\nto = "%s"\n[[site.access]]\npath = "/say.php"\nrules = ["deny all"]\n' "$work/fpm.sock" >"$work/closed.toml"
if launch_in_lab --config "$work/closed.toml" --sockets; then
    for what in /say.php /say.php/x "/say.php/x.php?y"; do
        same "a script that is closed is closed by every name: $what" 403 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://10.10.0.1$what")"
    done
    same "others are open" 200 "$(client curl -sS -m 60 -o /dev/null -w '%{http_code}' "http://10.10.0.1/index.php/x")"
    stop
else
    bad "the server starts with a closed script" "$(cat "$work/err")"
fi
exit $failures
