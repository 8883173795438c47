#!/usr/bin/env bash
# What a scanner finds of HTTPS: testssl.sh looks at protocols, suites, certificates, header fields and known vulnerabilities, of the settings that
# are there by themselves and of TLS 1.3 alone. Each finding that is not good is an error, but those below, with the reason. Prints "ok NAME",
# "not ok NAME: why" or "SKIPPED: ..." lines.
#
#   tests/serve/judges/scan.sh PATH/TO/exos [whole]
#
# The whole scan also asks in the ways of some hundred clients and for each suite, and gives a grade, if it is testssl.sh 3.2: TESTSSL names it where
# it is not on the path. It takes minutes, the other a part of one.
. "$(dirname "$0")/../../common.sh"
testssl=${TESTSSL:-testssl}
need_root "a scan of HTTPS"
need_programs "a scan of HTTPS" "$testssl:testssl.sh" openssl:openssl python3:python3
be_alone "$@"
begin
parts=(--protocols --std --fs --server-defaults --headers --vulnerable)
form=${2:-parts}
[ "$form" != whole ] || parts=()

mkdir "$work/site"
echo home >"$work/site/index.html"
cd "$work" || exit 1
key() {
    case $1 in
        rsa) openssl genrsa -out rsa.key 2048 ;;
        *) openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" ;;
    esac 2>/dev/null
    chmod 600 "$1.key"
}
key root
openssl req -x509 -new -key root.key -subj /CN=root -days 90 -out root.pem -addext basicConstraints=critical,CA:TRUE 2>/dev/null
for kind in ec rsa; do
    key $kind
    openssl req -new -key $kind.key -subj /CN=scan.test -out $kind.csr 2>/dev/null
    openssl x509 -req -in $kind.csr -CA root.pem -CAkey root.key -CAcreateserial -sha256 -days 85 -extfile <(echo subjectAltName=DNS:scan.test) -out $kind.pem 2>/dev/null
done
cat >serve.toml <<END
port = 8080
[tls]
port = 8443
@MINIMUM@
[[site]]
names = ["scan.test"]
root = "site"
https_only = true
hsts_days = 365
[[site.certificate]]
file = "ec.pem"
key = "ec.key"
[[site.certificate]]
file = "rsa.pem"
key = "rsa.key"
END

# judge WANTED-OF-TLS-1.2: the findings in $work/findings.
judge() {
    python3 -S - "$work/findings" "$1" "$form" <<'END'
import json, sys
findings = [one for one in json.load(open(sys.argv[1])) if one["id"] not in ("service", "scanTime")]
# What is not good for another reason than the server's: what begins so, with the words and the severity that are meant, and no others.
ALLOWED = {
    "cert_revocation": ("HIGH", "Neither CRL nor OCSP URI provided", "an authority of its own says nowhere what it has revoked"),
    "DNS_CAArecord": ("LOW", "--", "nobody answers for the name"),
    "engine_problem": ("WARN", "No engine", "OpenSSL's own"),
    "QUIC": ("WARN", "not tested due to lack of local OpenSSL support", "OpenSSL's own, too: it has none"),
    "NPN": ("WARN", "not possible for TLS 1.3-only hosts", "nobody offers it any more"),
    "security_headers": ("MEDIUM", "--", "what documents may do is the site's to say ([[site.fields]])"),
    "sessionresumption_ticket": ("WARN", "check failed", "its own client does not resume sessions of TLS 1.3 here"),
    "cipher_order": ("HIGH", "NOT a cipher order configured", "each client's order is taken, since it knows whether its processor has AES; all suites are good"),
}
def is_allowed(one):
    severity, words, _ = ALLOWED.get(one["id"].split(" ")[0], ("", "", ""))
    return one["severity"] == severity and one["finding"].strip().startswith(words)
def said(name, good, why=""):
    print(f"ok {name}" if good else f"not ok {name}: {why}")
by = {one["id"].split(" ")[0]: one for one in findings}
def finding(name):
    return by.get(name, {}).get("finding", "")
for name in ("SSLv2", "SSLv3", "TLS1", "TLS1_1"):
    said(f"{name} is not offered", finding(name).startswith("not offered"), finding(name))
said("TLS 1.3 is offered", finding("TLS1_3").startswith("offered"), finding("TLS1_3"))
said(f"TLS 1.2 is {sys.argv[2]}", finding("TLS1_2").startswith(sys.argv[2]), finding("TLS1_2"))
lists = sorted(name for name in by if name.startswith("cipherlist_") and not name.startswith("cipherlist_STRONG"))
said("lists of suites are asked for", len(lists) >= 5, lists)
for name in lists:
    said(f"{name} is not offered", "not offered" in finding(name) or finding(name).startswith("not "), finding(name))
vulnerabilities = ["heartbleed", "CCS", "ticketbleed", "ROBOT", "CRIME_TLS", "BREACH", "POODLE_SSL", "SWEET32", "FREAK", "DROWN", "LOGJAM", "BEAST", "LUCKY13", "RC4"]
looked = [name for name in vulnerabilities if name in by]
said("vulnerabilities are looked for", len(looked) > 9, looked)
bad = [one for one in findings if one["severity"] not in ("OK", "INFO") and not is_allowed(one)]
said("nothing is found that is not good", not bad, [(one["id"], one["severity"], one["finding"][:100]) for one in bad])
for name in ("overall_grade", "final_score", "grade_cap_reason_1"):
    if name in by:
        print(f"# {name}: {finding(name)}")
if "overall_grade" in by:
    # The authority is told to the scanner: T, for a certificate that is not trusted, is not good, and hides worse grades.
    said("the grade is A+", finding("overall_grade") == "A+", finding("overall_grade"))
elif sys.argv[3] == "whole":
    print("# no grade: that needs testssl.sh 3.2")
trust = [one for one in findings if one["id"].startswith("cert_chain_of_trust")]
said("the certificates are trusted", trust and all(one["finding"].startswith("passed") for one in trust), [one["finding"] for one in trust])
# A scan that has ended early has few: 100 are those of one without the whole.
said("enough is looked at", len(findings) >= 80, f"{len(findings)} findings")
print(f"# {len(findings)} findings")
END
}
# scan NAME MINIMUM WANTED-OF-TLS-1.2
scan() {
    about="$1: "
    sed "s/^@MINIMUM@/$2/" serve.toml >now.toml
    launch "https://" "$exos" serve --sockets --address 127.0.0.1/8 --config now.toml || { bad "the server starts" "$(cat err)"; return; }
    rm -f findings
    "$testssl" --quiet --warnings off --color 0 --add-ca root.pem --jsonfile findings --ip 127.0.0.1 "${parts[@]}" scan.test:8443 >scanned 2>&1 </dev/null
    # From 242 on it says that it has come to an error of its own; what is below counts findings.
    local status=$?
    [ $status -lt 242 ] || bad "the scan comes to its end" "status $status: $(tail -n 3 scanned)"
    # A judge that fails has not judged.
    judge "$3" >judged 2>&1 || bad "the findings are judged" "$(tail -n 3 judged scanned)"
    while read -r line; do
        case $line in
            "ok "*) ok "${line#ok }" ;;
            "not ok "*) bad "${line#not ok }" ;;
            *) echo "$line" ;;
        esac
    done <judged
    stop; same "the server ends in order" 0 $?
}
scan "by itself" "" offered
scan "TLS 1.3 alone" 'minimum_version = "1.3"' "not offered"
exit $((failures > 0))
