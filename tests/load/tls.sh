#!/usr/bin/env bash
# `exos load https://` against nginx, over packets and over sockets: its handshakes, full and resumed, are those that nginx's log has,
# of TLS 1.3 and 1.2; certificates that are not good are told of; what was asked for comes whole. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/load/tls.sh PATH/TO/exos
#
# Everything happens in namespaces of a lab of its own. Nothing here judges how fast it is.
. "$(dirname "$0")/common.sh"
need_root "the load generator over TLS"
need_programs "the load generator over TLS" nginx python3 openssl
be_alone "$@"
begin
lab=load-tls-$$
queues=2
mkdir -p "$work/site"
head -c 100 /dev/urandom >"$work/site/small"
head -c 300000 /dev/urandom >"$work/site/large"

# certificate NAME DAYS: of our authority, for the server's name and address.
certificate() {
    openssl x509 -req -in "$work/request" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -copy_extensions copy -days "$2" -out "$work/$1.pem" 2>/dev/null
}
key() { openssl req "$@" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes 2>/dev/null; }
key -x509 -keyout "$work/ca.key" -out "$work/ca.pem" -days 30 -subj '/CN=an authority'
key -keyout "$work/key" -out "$work/request" -subj /CN=www.lab.test -addext 'subjectAltName=DNS:www.lab.test,IP:10.10.0.1'
certificate good 9
certificate expired -1
key -x509 -keyout "$work/own.key" -out "$work/own.pem" -days 9 -subj /CN=own.lab.test -addext 'subjectAltName=DNS:own.lab.test'
# listens PORT VERSIONS CERTIFICATE KEY
listens() { echo "server { listen 10.10.0.1:$1 ssl; ssl_protocols $2; ssl_certificate $work/$3.pem; ssl_certificate_key $work/$4; }"; }
configure_nginx "log_format tls '\$server_port \$ssl_protocol \$ssl_session_reused \$ssl_server_name \$status \$sent_http_x_early'; access_log $work/nginx/log tls;
    keepalive_requests 100000; ssl_session_cache shared:s:10m; ssl_session_tickets on;
    $(listens 443 TLSv1.3 good key) $(listens 8443 TLSv1.2 good key) $(listens 9443 TLSv1.3 expired key) $(listens 7443 TLSv1.3 own own.key)
    server { listen 10.10.0.1:5443 ssl http2; ssl_protocols TLSv1.3; ssl_early_data on; ssl_certificate $work/good.pem; ssl_certificate_key $work/key; add_header X-Early \$ssl_early_data; }" \
    "listen 10.10.0.1:80;"
lab_up || { bad "lab up"; exit 1; }
start_nginx

# load CARRIER PORT ARGUMENTS...: its results are in $work/load. It leaves the core to others while it waits; with idle= it does what it does when nothing is said.
load() {
    local by=(--link xdp:wire --address 10.10.0.20/24) port=$2
    [ "$1" = packets ] || by=(--sockets)
    shift 2
    settled
    : >"$work/nginx/log"
    timeout 200 "$exos" lab exec --name "$lab" b -- "$exos" load "https://10.10.0.1:$port/$document" "${by[@]}" ${idle---idle sleep} --json --timeout 60s "$@" >"$work/load" 2>"$work/load.err"
}
got() { python3 -S -c "import json; r = json.load(open('$work/load')); t = r['tls']; print($1)" 2>&1; }
# logged PATTERN: lines of nginx's log that match, once nothing more comes.
logged() { settled; grep -cE "$1" "$work/nginx/log"; }
document=small

for carrier in packets sockets; do
    about="$carrier: "
    for port in 443 8443; do
        version=TLSv1.3; [ $port = 443 ] || version=TLSv1.2
        idle= load $carrier $port --cacert "$work/ca.pem" -c 4 -n 200 --requests-per-connection 1
        same "$version: all are answered" "200 200 {}" "$(got "r['responses'], r['connections'], r['errors']")"
        same "$version: all handshakes are full" "200 0 {} 200" "$(got "t['handshakes_full'], t['handshakes_resumed'], t['handshakes_failed'], r['times_us']['handshake']['count']")"
        same "$version: that is what was agreed on" True "$(got "all(a.startswith('$version ') for a in t['agreed']) and sum(t['agreed'].values()) == 200")"
        same "$version: nginx has seen them" 200 "$(logged "^$port $version \. - 200")"
        for share in 1 0.5; do
            load $carrier $port --cacert "$work/ca.pem" -c 4 -n 200 --requests-per-connection 1 --tls-resume $share
            same "$version: all are answered that resume $share" "200 {}" "$(got "r['responses'], r['errors']")"
            same "$version: nginx has resumed as many" "$(logged "^$port $version r - 200") $(logged "^$port $version \. - 200")" "$(got "t['handshakes_resumed'], t['handshakes_full']")"
            # The first connections of each client have no ticket yet.
            most=$(got "t['handshakes_resumed'] >= 190 if $share == 1 else 70 <= t['handshakes_resumed'] <= 130")
            same "$version: that are as many as was said" True "$most"
        done
    done
    for http in 1.1 2; do
        load $carrier 5443 --cacert "$work/ca.pem" -c 4 -n 200 --requests-per-connection 1 --http $http --tls-early 0.5 --tls-resume 0.3
        same "HTTP/$http: all are answered that come early" "200 200 {} 0" "$(got "r['responses'], t['handshakes_full'] + t['handshakes_resumed'] + t['handshakes_early'], r['errors'], t['early_refused']")"
        # What has come early is not early for nginx any more where the client's Finished came before it was read; exact is early.sh.
        taken=$(logged '^5443 TLSv1.3 r .* 200 1')
        same "HTTP/$http: nginx has taken them" True "$(got "0 < $taken <= t['handshakes_early']")"
        same "HTTP/$http: that are as many as was said" True "$(got "70 <= t['handshakes_early'] <= 130 and 30 <= t['handshakes_resumed'] <= 90")"
    done
    # It gives tickets that say that it takes none.
    load $carrier 443 --cacert "$work/ca.pem" -c 4 -n 100 --requests-per-connection 1 --tls-early 1
    same "a server that takes none" "100 {} 0 0 True" "$(got "r['responses'], r['errors'], t['handshakes_early'], t['early_refused'], t['handshakes_resumed'] >= 90")"
    load $carrier 5443 --cacert "$work/ca.pem" -c 4 -n 100 --requests-per-connection 1 --tls-early 1 -X DELETE
    same "what is not safe does not come early" "100 0 0 True" "$(got "r['responses'], t['handshakes_early'], t['early_refused'], t['handshakes_resumed'] >= 90")"
    load $carrier 443 --cacert "$work/ca.pem" --tls-name www.lab.test -c 3 -n 300 --pipeline 4
    same "connections are kept, a handshake each" "300 3 {}" "$(got "r['responses'], t['handshakes_full'], r['errors']")"
    same "the name that was given is asked for" 300 "$(logged '^443 TLSv1.3 . www.lab.test 200')"
    load $carrier 443 --cacert "$work/ca.pem" -r 200 -d 1s --requests-per-connection 2
    # What a busy machine does not let begin in time is told, and counts.
    same "at a rate, a handshake for each connection" "200 True {}" "$(got "r['errors'].pop('not_begun', 0) + r['responses'], t['handshakes_full'] == r['connections'] >= r['responses'] / 2 > 0, r['errors']")"
    document=large
    load $carrier 443 --cacert "$work/ca.pem" -c 2 -n 40 --expect-sha256 "$(sha256sum <"$work/site/large" | cut -d ' ' -f 1)"
    same "large documents come whole" "40 12000000 {}" "$(got "r['responses'], r['content_bytes'], r['errors']")"
    document=small

    load $carrier 443 -n 1
    has "an authority that nobody knows" "no authority that is trusted" "$(cat "$work/load.err")"
    has "and what to do" "--cacert" "$(cat "$work/load.err")"
    load $carrier 9443 --cacert "$work/ca.pem" -n 1
    has "a certificate that has expired" "expired" "$(cat "$work/load.err")"
    load $carrier 443 --cacert "$work/ca.pem" --tls-name other.lab.test -n 1
    has "a certificate of another name" "www.lab.test" "$(cat "$work/load.err")"
    load $carrier 80 -n 1
    has "no TLS there" "port at which TLS is spoken" "$(cat "$work/load.err")"
    load $carrier 9443 --insecure -n 5 -c 1
    same "nothing is checked" "5 {}" "$(got "r['responses'], r['errors']")"
    load $carrier 7443 --cacert "$work/own.pem" --tls-name own.lab.test -n 5 -c 1
    same "a certificate that is trusted itself" "5 {}" "$(got "r['responses'], r['errors']")"
    load $carrier 7443 --cacert "$work/own.pem" -n 1
    has "not for another name" "own.lab.test" "$(cat "$work/load.err")"
    load $carrier 9443 --cacert "$work/ca.pem" -c 2 -n 10 --no-probe
    same "what fails is counted, by reason" "0 {'tls_handshake': 10} {'certificate_expired': 10}" "$(got "r['responses'], r['errors'], t['handshakes_failed']")"
done

# Heads of responses that are longer than what a session keeps by default: within the bound they are taken, beyond it that is an error, and
# nobody waits for the rest of them.
about="long heads: "
cat >"$work/heads.py" <<'END'
import socketserver, ssl, sys

class Heads(socketserver.StreamRequestHandler):
    def setup(self):
        self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self):
        try:
            while line := self.rfile.readline():
                length = int(line.split()[1].decode().strip("/"))
                while self.rfile.readline().strip():
                    pass
                fields = b"".join(b"A%d: %s\r\n" % (number, b"x" * 8000) for number in range(length // 8000))
                self.wfile.write(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 2\r\n\r\nok")
        except OSError:
            pass

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server = Server(("10.10.0.1", 6443), Heads)
print("listens", flush=True)
server.serve_forever()
END
if launch listens "$exos" lab exec --name "$lab" a -- python3 "$work/heads.py" "$work/good.pem" "$work/key"; then
    for carrier in packets sockets; do
        document=200000
        load $carrier 6443 --cacert "$work/ca.pem" -n 6 -c 2
        same "$carrier: 200 KB come whole" "6 12 {}" "$(got "r['responses'], r['content_bytes'], r['errors']")"
        document=400000
        load $carrier 6443 --cacert "$work/ca.pem" -n 4 -c 2
        same "$carrier: 400 KB are too long" "0 {'malformed': 4}" "$(got "r['responses'], r['errors']")"
    done
    end $server; server=
else
    bad "it starts" "$(cat "$work/err")"
fi
document=small

# Everything that makes requests works over TLS, against our own server, on several cores too.
about="exos serve: "
end $peer; peer=
# ask NAME WANTED ARGUMENTS...: a load of our server from the lab's other side.
ask() {
    local name=$1 wanted=$2; shift 2
    timeout 200 "$exos" lab exec --name "$lab" b -- "$exos" load --idle sleep --json --timeout 60s --cacert "$work/ca.pem" "$@" >"$work/load" 2>"$work/load.err"
    same "$name" "$wanted" "$(got "$query")"
}
"$exos" load surge-files "$work/site/set" --files 50 --seed 1 >/dev/null
chmod -R a+rX "$work"
printf 'https://10.10.0.1/small\n3 /large\n' >"$work/list"
printf '10.0.0.1 - - [10/Oct/2025:13:55:36 +0000] "GET /small HTTP/1.1" 200 100\n%.0s' {1..50} >"$work/log"
launch http "$exos" lab exec --name "$lab" a -- "$exos" serve "$work/site" --sockets --tls-cert "$work/good.pem" --tls-key "$work/key" ||
    { bad "starts" "$(cat "$work/err")"; exit 1; }
for by in "--link xdp:wire --address 10.10.0.20/24" --sockets; do
    carrier=packets; [ "$by" = --sockets ] && carrier=sockets
    query="r['responses'], t['handshakes_full'] + t['handshakes_resumed'] == r['connections'], r['errors']"
    # shellcheck disable=SC2086
    {
        ask "$carrier: connections for each request" "200 True {}" https://10.10.0.1/small $by -n 200 -c 4 --requests-per-connection 1 --tls-resume 0.5
        ask "$carrier: on two cores" "200 True {}" https://10.10.0.1/small $by -n 200 -c 4 --requests-per-connection 5 --cores 2
        ask "$carrier: a list" "100 True {}" --urls "$work/list" $by -n 100 -c 4
        ask "$carrier: a log" "50 True {}" https://10.10.0.1/ --replay "$work/log" --as-fast-as-possible $by -c 4
        query="r['responses'] > 0, t['handshakes_full'] > 0, r['errors']"
        ask "$carrier: SURGE's users" "True True {}" https://10.10.0.1/set/ --surge "$work/site/set" $by -c 20 -d 3s
    }
done
exit $((failures > 0))
