#!/usr/bin/env python3
"""Scripts of tlsfuzzer against a server, and nginx beside it: see tlsfuzzer.sh.

    tlsfuzzer.py FOLDER-OF-TLSFUZZER short|long PORT [PORT-OF-NGINX]

Each conversation of a script has to go as the script says, or deviate as is written below, with the reason; the long form says which deviations were
not seen. What nginx does is counted beside that and not judged: several expectations are stricter than the RFCs.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

FOLDER, FORM = sys.argv[1:3]
PORT, PEER = sys.argv[3], sys.argv[4:]
IS_LONG = FORM == "long"
SECONDS_MAX = 600
# Conversations of each script in the short form, beside those that only show that the script works.
FEW = "4"

# Why conversations go another way.
NO_CURVE = "x448, P-521, Brainpool's and obsolete curves are not spoken: there is no group in common"
NO_FFDHE = "finite fields are not spoken: there is no group in common"
NO_CCM = "AES-CCM is not spoken: there is no suite in common"
NO_CBC = "suites without authenticated encryption are not spoken: there is none in common"
HELLO = "a hello has 16 KiB at most (docs/https.md)"
MESSAGE = "a message has 16 KiB at most; what is behind is not waited for"
SIGNATURE_LATER = "that no way of signing is in common comes to light behind the server's hello, and the alert is encrypted"
FINISHED = "verify_data of another length is called wrong (decrypt_error), not malformed (decode_error)"
KEY_SHARE = "a hello with groups and without key_share is called incompatible (handshake_failure), not incomplete (missing_extension)"
SECOND_CHANGE = "a change of ciphers is dropped however often it comes, as RFC 8446 §5 says; the script wants the second one refused"
LEGACY = "the legacy version is not looked at where supported_versions is there, as RFC 8446 §4.2.1 says"
SECOND_HELLO = "the order of extensions in a second hello is not compared with that of the first"
TWO_BYTES = "a change of ciphers with two bytes is called malformed"
KEY_UPDATE = "the key is changed before the next data that is sent, as RFC 8446 §4.6.3 says, and once for all that have asked till then"
NO_TICKET = "a client that offers no way to use a ticket gets none"
EMPTY_ALERT = "an alert that is empty is called malformed in the handshake (decode_error), not unexpected"
INTERLEAVED = "what stands within a message is called malformed (decode_error), not unexpected"
TYPE = "a hello's type that there is not is called malformed (decode_error), not unexpected"
OBSOLETE = "hellos that offer obsolete curves beside others are answered, as by nginx"

GROUP = 'handshake_failure'
ECDHE = ["-d", "-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]

# Script, options, whether it is in the short form, and deviations: conversations, what is said of them, why.
SCRIPTS = [
    # TLS 1.3
    ("tls13-conversation", [], True, []),
    ("tls13-0rtt-garbage", [], True, [(r"downgrade to TLS 1\.2", GROUP, NO_CBC)]),
    ("tls13-ccs", [], True, []),
    ("tls13-connection-abort", ["--repeat", "2"], False, [("", "ApplicationData", NO_TICKET)]),
    ("tls13-count-tickets", [], False, []),
    ("tls13-crfg-curves", [], True, [("x448", GROUP, NO_CURVE), ("empty x(25519|448)", "decode_error", "an empty key is called malformed")]),
    ("tls13-ecdhe-curves", [], True, [("secp521r1|x448", GROUP, NO_CURVE)]),
    ("tls13-empty-alert", [], True, [("using handshake keys", "decode_error", EMPTY_ALERT)]),
    ("tls13-finished", [], True, [("padding|truncation", "decrypt_error", FINISHED), ("131072", "closure|decode_error", MESSAGE)]),
    ("tls13-finished-plaintext", [], True, []),
    ("tls13-hrr", [], True, []),
    ("tls13-invalid-ciphers", [], True, []),
    ("tls13-keyshare-omitted", [], True, [("key_share extension omitted", GROUP, KEY_SHARE)]),
    ("tls13-keyupdate", [], True, [("app data split|multiple KeyUpdate", "Timeout|ApplicationData", KEY_UPDATE)]),
    ("tls13-keyupdate-from-server", [], False, [("post-handshake KeyUpdate", "ApplicationData", NO_TICKET)]),
    ("tls13-large-number-of-extensions", [], False, [("extensions", "closure|decode_error", HELLO)]),
    ("tls13-legacy-version", [], True, [("version", "server_hello", LEGACY)]),
    ("tls13-multiple-ccs-messages", [], False, [("CCS", "Timeout", SECOND_CHANGE)]),
    ("tls13-no-unknown-groups", [], False, [("unknown", "hello_retry_request|closure|decode_error", HELLO)]),
    ("tls13-nociphers", [], True, []),
    ("tls13-obsolete-curves", [], False, [("", "server_hello", OBSOLETE), ("", GROUP, NO_CURVE)]),
    ("tls13-pkcs-signature", [], True, [("rsa_pkcs1", "server_hello", SIGNATURE_LATER)]),
    ("tls13-record-layer-limits", [], False, [("Finished msg", "decrypt_error", FINISHED)]),
    ("tls13-record-padding", [], True, []),
    ("tls13-rsa-signatures", [], True, [("rsa_pss_pss", "server_hello", SIGNATURE_LATER)]),
    ("tls13-session-resumption", [], True, [("TLS 1.2", GROUP, NO_CBC), ("PSK_ONLY", "ApplicationData", "a client that takes tickets without key exchange alone gets none")]),
    ("tls13-shuffled-extentions", [], False, [("HRR", "server_hello", SECOND_HELLO), ("HRR", "closure|decode_error", HELLO)]),
    ("tls13-signature-algorithms", [], False, [("only (legacy|undefined)", "server_hello", SIGNATURE_LATER), ("schemes|methods", "closure|decode_error", HELLO)]),
    ("tls13-symetric-ciphers", [], True, [("CCM", GROUP, NO_CCM)]),
    ("tls13-unencrypted-alert", [], True, []),
    ("tls13-unrecognised-groups", [], False, [("ffdhe2048", GROUP, NO_FFDHE), ("key_share of size", "closure|decode_error", HELLO)]),
    ("tls13-zero-content-type", [], True, []),
    ("tls13-zero-length-data", [], True, [("interleaved in handshake", "decode_error", INTERLEAVED)]),
    # TLS 1.2
    ("TLSv1_2-rejected-without-TLSv1_2", [], False, [("sanity", GROUP, NO_CBC)]),
    ("ccs", ECDHE, True, [("two bytes long CCS", "decode_error", TWO_BYTES)]),
    ("chacha20", ["--extra-exts"], True, []),
    ("connection-abort", ECDHE, False, []),
    ("conversation", ECDHE, True, []),
    ("cve-2016-6309", ECDHE, False, []),
    ("early-application-data", ECDHE, True, []),
    ("fuzzed-ciphertext", ECDHE, True, []),
    ("hello-request-by-client", ECDHE, True, []),
    ("interleaved-CKE-with-CCS", ECDHE[1:], True, [("interleaved ClientKeyExchange", "decode_error", INTERLEAVED)]),
    ("invalid-client-hello-w-record-overflow", ECDHE, False, [("type fuzz to", "decode_error", TYPE)]),
    ("invalid-compression-methods", ECDHE, True, []),
    ("invalid-content-type", ECDHE, True, []),
    ("no-mlkem-in-old-tls", ECDHE, False, []),
    ("record-layer-fragmentation", ECDHE, False, [("maximum size", "closure|decode_error", HELLO)]),
    ("renegotiation-disabled", ECDHE, True, []),
    ("sslv2-force-cipher", [], False, []),
    ("sslv2-force-export-cipher", [], False, []),
    ("truncating-of-client-hello", ECDHE, True, []),
    ("version-numbers", ECDHE, True, []),
    ("zero-length-data", ECDHE, True, []),
]


def run(name, options, port):
    """What a script says."""
    few = [] if IS_LONG else ["-n", FEW]
    command = [sys.executable, os.path.join(FOLDER, "scripts", f"test-{name}.py"), "-h", "127.0.0.1", "-p", port, *options, *few]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS_MAX, check=False,
                              env=dict(os.environ, PYTHONPATH=FOLDER))
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


def read(text):
    """How many conversations there were, and those that went another way, with what is said of them."""
    total = re.search(r"^TOTAL: (\d+)$", text, re.M)
    if not total:
        return 0, [("it", text[-300:] or "does not come to its end")]
    other, name = [], ""
    for line in text.splitlines():
        if line.endswith(" ..."):
            name = line[:-4]
        elif line.startswith("AssertionError: "):
            other.append((name, line.removeprefix("AssertionError: ")))
    failed = int(re.search(r"^FAIL: (\d+)$", text, re.M)[1])
    if failed > len(other):
        other.append(("it", text[-300:]))
    return int(total[1]), other


def judge(script, text):
    """Prints what came of a script; whether all was as it should be."""
    name, _, _, deviations = script
    total, other = read(text)
    seen = dict.fromkeys(range(len(deviations)), 0)
    strange = []
    for conversation, said in other:
        fits = (at for at, (names, words, _) in enumerate(deviations) if re.search(names, conversation) and re.search(words, said))
        at = next(fits, None)
        if at is None:
            strange.append(f"{conversation}: {said}")
        else:
            seen[at] += 1
    for at, count in seen.items():
        if count:
            print(f"#   {count} of {name} ({deviations[at][0] or 'any'}): {deviations[at][2]}")
        elif IS_LONG:
            print(f"#   0 of {name} ({deviations[at][0] or 'any'}): what a script draws at random may have none")
    print(f"not ok {name}: {'; '.join(strange[:3])}" if strange else f"ok {name}: {total - len(other)} of {total} as they should, {len(other)} as allowed", flush=True)
    return not strange


def main():
    scripts = [script for script in SCRIPTS if IS_LONG or script[2]]
    good, asked, peers = True, 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts = [pool.submit(run, name, options, PORT) for name, options, _, _ in scripts]
        beside = [pool.submit(run, name, options, PEER[0]) for name, options, _, _ in scripts] if PEER else []
        for at, script in enumerate(scripts):
            text = texts[at].result()
            good &= judge(script, text)
            asked += read(text)[0]
        for script, told in zip(scripts, beside):
            total, other = read(told.result())
            peers += len(other)
            print(f"# nginx, {script[0]}: {max(total - len(other), 0)} of {total} as they should")
    print(f"# {asked} conversations of {len(scripts)} scripts" + (f"; of nginx's {peers} went another way" if PEER else ""))
    return 0 if good else 1


sys.exit(main())
