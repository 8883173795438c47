#!/usr/bin/env python3
"""Scripts of tlsfuzzer against a server, and nginx beside it: see tlsfuzzer.sh.

    tlsfuzzer.py FOLDER-OF-TLSFUZZER short|long PORT [PORT-OF-NGINX]

Each conversation of a script has to go as the script says, or deviate as is written below, with the reason. The scripts draw at random which conversations
they have, and bytes in them: each begins with the same seed, so that what has failed fails again, and the long form holds how often each deviation is
seen against what is written. EXOS_SEED draws others, of which that is not asked. What nginx does is counted beside that and not judged: several
expectations are stricter than the RFCs.
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
USUAL_SEED = "1"
SEED = os.environ.get("EXOS_SEED", USUAL_SEED)
# Starts a script with a seed.
SEEDED = "import random, runpy, sys; random.seed(int(sys.argv[1])); sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"

# Why conversations go another way. Where an RFC says otherwise, that is said.
NO_CURVE = "x448, P-521, Brainpool's and obsolete curves are not spoken: there is no group in common"
NO_CCM = "AES-CCM is not spoken: there is no suite in common"
NO_CBC = "suites without authenticated encryption are not spoken: there is none in common"
NO_TLS_1_1 = "TLS 1.1 is not spoken, which is said before a suite is looked for"
HELLO = "a hello has 16 KiB at most (docs/https.md); the alert is lost where the client still sends"
MESSAGE = "a message has 16 KiB at most; what is behind is not waited for"
SIGNATURE_LATER = "that no way of signing is in common comes to light behind the server's hello, and the alert is encrypted"
FINISHED = "rustls compares verify_data of whatever length: decrypt_error, where RFC 8446 §6.2 wants decode_error"
KEY_SHARE = "rustls finds no group in common (handshake_failure), where RFC 8446 §9.2 wants missing_extension"
EMPTY_KEY = "an empty key is called malformed"
SECOND_CHANGE = "a change of ciphers is dropped however often it comes, as RFC 8446 §5 says; the script wants the second one refused"
LEGACY = "the legacy version is not looked at where supported_versions is there, as RFC 8446 §4.2.1 says"
TWO_BYTES = "rustls reads a change of ciphers before it asks whether it has a place there: decode_error"
KEY_UPDATE = "the key is changed before the next data that is sent, as RFC 8446 §4.6.3 says, and once for all that have asked till then"
NO_TICKET = "a client that offers no way to use a ticket gets none"
EMPTY_ALERT = "rustls reads an encrypted alert in the handshake before it asks for its length: decode_error, where RFC 8446 §5.4 wants unexpected_message"
TYPE = "rustls reads a hello of another type as what it is then: decode_error, where RFC 8446 §4 wants unexpected_message"

# What is said of conversations.
REFUSED = r'Alert\(fatal, handshake_failure\)|received "handshake_failure"'
MALFORMED = r'received "decode_error"'
CUT_OFF = r"Unexpected closure from peer|Alert\(fatal, decode_error\)"
ANSWERED = r"Unexpected message from peer: Handshake\(server_hello\)"
DATA = r"Unexpected message from peer: ApplicationData\("
SILENT = r"Timeout when waiting for peer message"

ECDHE = ["-d", "-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]

# Script, options, whether it is in the short form, and deviations: conversations, what is said of them, how many there are in the long form (two
# numbers: from, to, where it depends on what has come when), and why. Scripts of which most deviates judge nothing, and are left out: tls13-obsolete-curves,
# tls13-shuffled-extentions and tls13-unrecognised-groups (most of their hellos are too long), TLSv1_2-rejected-without-TLSv1_2 (it needs CBC to begin).
SCRIPTS = [
    # TLS 1.3
    ("tls13-conversation", [], True, []),
    ("tls13-0rtt-garbage", [], True, [
        (r"downgrade to TLS 1\.2", REFUSED, 1, NO_CBC)]),
    ("tls13-ccs", [], True, []),
    ("tls13-connection-abort", ["--repeat", "2"], False, [
        ("After NewSessionTicket", DATA, 2, NO_TICKET)]),
    ("tls13-count-tickets", [], False, []),
    ("tls13-crfg-curves", [], True, [
        ("empty x(25519|448) key share", MALFORMED, 2, EMPTY_KEY),
        ("x448", REFUSED, 7, NO_CURVE)]),
    ("tls13-ecdhe-curves", [], True, [
        ("secp521r1|x448", REFUSED, 12, NO_CURVE)]),
    ("tls13-empty-alert", [], True, [
        ("using handshake keys", MALFORMED, 4, EMPTY_ALERT)]),
    ("tls13-finished", [], True, [
        ("^(padding|truncation) ", 'received "decrypt_error"', 3, FINISHED),
        ("pad_(left|right) 131072", CUT_OFF, 0, MESSAGE)]),
    ("tls13-finished-plaintext", [], True, []),
    ("tls13-hrr", [], True, []),
    ("tls13-invalid-ciphers", [], True, []),
    ("tls13-keyshare-omitted", [], True, [
        ("key_share extension omitted", 'received "handshake_failure"', 1, KEY_SHARE)]),
    ("tls13-keyupdate", [], True, [
        ("app data split, conversation with KeyUpdate msg", SILENT, 1, KEY_UPDATE),
        ("multiple KeyUpdate messages", DATA, 1, KEY_UPDATE)]),
    ("tls13-keyupdate-from-server", [], False, [
        ("post-handshake KeyUpdate msg from server", DATA, 1, NO_TICKET)]),
    ("tls13-large-number-of-extensions", [], False, [
        ("unassigned extensions", CUT_OFF, (0, 20), HELLO)]),
    ("tls13-legacy-version", [], True, [
        (r"^version \(\d, \d\)", ANSWERED, 8, LEGACY)]),
    ("tls13-multiple-ccs-messages", [], False, [
        ("second CCS before client finished|multiple CCS Messages in one TCP packet", SILENT, 3, SECOND_CHANGE)]),
    ("tls13-no-unknown-groups", [], False, [
        ("long list of unknown", r"Handshake\(server_hello, hello_retry_request\)|" + CUT_OFF, 1, HELLO)]),
    ("tls13-nociphers", [], True, []),
    ("tls13-pkcs-signature", [], True, [
        ("^rsa_pkcs1_", ANSWERED, 6, SIGNATURE_LATER)]),
    ("tls13-record-layer-limits", [], False, [
        ("of Finished msg", 'received "decrypt_error"', 2, FINISHED)]),
    ("tls13-record-padding", [], True, []),
    ("tls13-rsa-signatures", [], True, [
        ("rsa_pss_pss", ANSWERED, 3, SIGNATURE_LATER)]),
    ("tls13-session-resumption", [], True, [
        (r"TLS 1\.2", REFUSED, 2, NO_CBC),
        ("PSK_ONLY", DATA, 1, "a client that takes tickets without key exchange alone gets none")]),
    ("tls13-signature-algorithms", [], False, [
        ("only (legacy|undefined)", ANSWERED, 0, SIGNATURE_LATER),
        (r"^(duplicated |tolerance )?\d{4,5} .*(schemes|methods)", CUT_OFF, 4, HELLO)]),
    ("tls13-symetric-ciphers", [], True, [
        ("AES_128_CCM", REFUSED, 43, NO_CCM)]),
    ("tls13-unencrypted-alert", [], True, []),
    ("tls13-zero-content-type", [], True, []),
    ("tls13-zero-length-data", [], True, []),
    # TLS 1.2
    ("ccs", ECDHE, True, [
        ("two bytes long CCS", MALFORMED, 1, TWO_BYTES)]),
    ("chacha20", ["--extra-exts"], True, [
        ("Chacha20 in TLS1.1", 'received "protocol_version"', 1, NO_TLS_1_1)]),
    ("connection-abort", ECDHE, False, []),
    ("conversation", ECDHE, True, []),
    ("cve-2016-6309", ECDHE, False, [
        ("Large ClientHello padding", CUT_OFF, (0, 1), HELLO)]),
    ("early-application-data", ECDHE, True, []),
    ("fuzzed-ciphertext", ECDHE, True, []),
    ("hello-request-by-client", ECDHE, True, []),
    ("interleaved-CKE-with-CCS", ECDHE[1:], True, []),
    ("invalid-client-hello-w-record-overflow", ECDHE, False, [
        ("Client Hello type fuzz to", MALFORMED, 1, TYPE)]),
    ("invalid-compression-methods", ECDHE, True, []),
    ("invalid-content-type", ECDHE, True, []),
    ("no-mlkem-in-old-tls", ECDHE, False, []),
    ("record-layer-fragmentation", ECDHE, False, [
        ("^(big, needs fragmentation|maximum size)", CUT_OFF, (1, 5), HELLO)]),
    ("renegotiation-disabled", ECDHE, True, []),
    ("sslv2-force-cipher", [], False, []),
    ("sslv2-force-export-cipher", [], False, []),
    ("truncating-of-client-hello", ECDHE, True, [
        ("^(big|huge|max) pad: ", CUT_OFF, (0, 3), HELLO)]),
    ("version-numbers", ECDHE, True, []),
    ("zero-length-data", ECDHE, True, []),
]


def run(name, options, port):
    """What a script says, and its exit status."""
    few = [] if IS_LONG else ["-n", FEW]
    script = os.path.join(FOLDER, "scripts", f"test-{name}.py")
    command = [sys.executable, "-c", SEEDED, SEED, script, "-h", "127.0.0.1", "-p", port, *options, *few]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS_MAX, check=False,
                              env=dict(os.environ, PYTHONPATH=FOLDER, PYTHONHASHSEED="0"))
    except subprocess.TimeoutExpired:
        return "", 0
    return done.stdout + done.stderr, done.returncode


def read(told):
    """How many conversations there were, and those that went another way, with what is said of each."""
    text, status = told
    summary = dict(re.findall(r"^(TOTAL|FAIL|XFAIL|XPASS): (\d+)$", text, re.M))
    if "FAIL" not in summary:
        return 0, [("it", text[-300:] or "does not come to its end")]
    total, failed = int(summary["TOTAL"]), int(summary["FAIL"])
    # Each begins with its name on a line, and comes to a line that says OK, or to an exception.
    blocks = []
    for line in text.split("\nTest end\n")[0].splitlines():
        if re.search(r"\S ?\.\.\.$", line):
            blocks.append((line.removesuffix("...").strip().strip('"'), []))
        elif blocks:
            blocks[-1][1].append(line)
    other = []
    for name, lines in blocks:
        if "OK" not in lines:
            errors = [line for line in lines if re.match(r"(\w+\.)*\w+(Error|Exception): ", line)]
            other.append((name, errors[-1] if errors else "; ".join(lines)[-200:]))
    if len(other) != failed or (failed > 0) != (status != 0) or summary.get("XPASS", "0") != "0":
        other.append(("it", f"{failed} failures, status {status}, of which {len(other)} are understood: {text[-300:]}"))
    return total, other


def judge(script, told):
    """Prints what came of a script; whether all was as it should be."""
    name, _, _, deviations = script
    total, other = read(told)
    seen = [0] * len(deviations)
    strange = []
    for conversation, said in other:
        fits = (at for at, (names, words, _, _) in enumerate(deviations) if re.search(names, conversation) and re.search(words, said))
        at = next(fits, None)
        # What shows that a script works at all has to go as it should.
        if at is None or conversation == "sanity":
            strange.append(f"{conversation}: {said}")
        else:
            seen[at] += 1
    for count, (names, _, usual, why) in zip(seen, deviations):
        if count:
            print(f"#   {count} of {name} ({names}): {why}")
        low, high = usual if isinstance(usual, tuple) else (usual, usual)
        if SEED == USUAL_SEED and (count > high or IS_LONG and count < low):
            strange.append(f"{count} of '{names}' deviate, in place of {low} to {high}")
    print(f"not ok {name}: {'; '.join(strange[:3])}" if strange else f"ok {name}: {total - len(other)} of {total} as they should, {len(other)} as allowed", flush=True)
    return not strange


def main():
    scripts = [script for script in SCRIPTS if IS_LONG or script[2]]
    print(f"# EXOS_SEED={SEED}", flush=True)
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
