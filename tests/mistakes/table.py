# SPDX-License-Identifier: Apache-2.0
"""The mistakes: what is typed, what is said, and what is typed then.

`{open}`, `{auth}` and `{tls}` are registries, `{dead}` a port where nobody listens, `{web}` a web server, `{new}` a
repository that nothing was pushed to, `{here}` the working folder, `{keys}` one with keys. `…` stands for any text.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A mistake.

    Attributes:
        command: Arguments of `ocibridge`; `< FILE` at the end is its standard input.
        sentence: What is said after `ocibridge: error: `; the next step stands behind the last `; `.
        then: Commands that follow the next step; each succeeds.
        status: The exit status.
        dropped: Flags that the sentence says to leave out.
    """

    command: str
    sentence: str
    then: tuple[str, ...] = ()
    status: int = 1
    dropped: str = ""


USAGE = 2
FORMS = "HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]"
MODELS = "x.carton, x.mlarchive, x.gguf or x.safetensors, a folder, ollama:NAME[:TAG]"
ABSENT = "sha256:" + 64 * "a"

COMMAND_LINE = [
    Mistake(
        "pussh digits.carton {new}:v1",
        "'ocibridge' has no command 'pussh'; did you mean push? See 'ocibridge --help'",
        ("push digits.carton {new}:v1", "--help"),
        USAGE,
    ),
    Mistake(
        "--versoin",
        "'ocibridge' has no option --versoin; did you mean --version? See 'ocibridge --help'",
        ("--version", "--help"),
        USAGE,
    ),
    Mistake(
        "push",
        "the following arguments are required: SOURCE, TARGET; see 'ocibridge push --help'",
        ("push --help",),
        USAGE,
    ),
    Mistake(
        "push digits.carton",
        "the following arguments are required: TARGET; see 'ocibridge push --help'",
        ("push --help",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --layer raw",
        "'ocibridge push' has no option --layer; did you mean --layers? See 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --layers raw", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --layers rwa",
        "--layers cannot be 'rwa'; did you mean raw? The choices are tar, raw, raw-files. See 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --layers raw", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --compress lz4",
        "--compress cannot be 'lz4'; the choices are none, gzip, zstd. See 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --compress zstd", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 extra",
        "'ocibridge push' takes no further argument 'extra'; see 'ocibridge push --help'",
        ("push --help",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --max-layers 0",
        "argument --max-layers: '0' is no whole number of 1 or more; see 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --max-layers 4", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --concurrency many",
        "argument --concurrency: 'many' is no whole number of 1 or more; see 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --concurrency 1", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --created yesterday",
        "argument --created: 'yesterday' is no time: write 2026-01-31T12:00:00Z, or seconds since 1970; "
        "see 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --created 2026-01-31T12:00:00Z", "push --help"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --dialect cnia",
        "--dialect cannot be 'cnia'; did you mean cnai? The choices are cnai, draft, modelpack. "
        "See 'ocibridge push --help'",
        ("push digits.carton {new}:v1 --dialect cnai", "push --help"),
        USAGE,
    ),
    Mistake(
        "inspect",
        "the following arguments are required: MODEL; see 'ocibridge inspect --help'",
        ("inspect --help",),
        USAGE,
    ),
    Mistake(
        "mirror",
        "'ocibridge mirror' needs one of its commands: run, plan, check; see 'ocibridge mirror --help'",
        ("mirror --help", "mirror plan job.yaml"),
        USAGE,
    ),
    Mistake(
        "mirror rnu job.yaml",
        "'ocibridge mirror' has no command 'rnu'; did you mean run? See 'ocibridge mirror --help'",
        ("mirror run job.yaml", "mirror --help"),
        USAGE,
    ),
    Mistake(
        "volume",
        "'ocibridge volume' needs one of its commands: prepare, check, manifest; see 'ocibridge volume --help'",
        ("volume --help",),
        USAGE,
    ),
    Mistake(
        "completion fish9",
        "SHELL cannot be 'fish9'; did you mean fish? The choices are bash, zsh, fish. See 'ocibridge completion "
        "--help'",
        ("completion fish", "completion --help"),
        USAGE,
    ),
    Mistake(
        "volume manifest {open}/models/digits:v1 --kind Pood",
        "--kind cannot be 'Pood'; did you mean Pod? The choices are Pod, Deployment, InferenceService, DaemonSet, "
        "InitContainer. See 'ocibridge volume manifest --help'",
        ("volume manifest {open}/models/digits:v1 --kind Pod", "volume manifest --help"),
        USAGE,
    ),
    Mistake(
        "volume check {open}/models/digits:v1 --runtime dokcer",
        "--runtime cannot be 'dokcer'; the choices are containerd, cri-o. See 'ocibridge volume check --help'",
        ("volume check {open}/models/digits:v1-image --runtime containerd", "volume check --help"),
        USAGE,
    ),
]

REFERENCES = [
    Mistake(
        "push digits.carton {open}/X:v1",
        "the repository 'X' in '{open}/X:v1' is not valid; "
        "use lower-case letters, digits and single '.', '_', '-' or '/' between them",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1@sha256:00",
        "the reference '{new}:v1@sha256:00': 'sha256:00' is not a digest that can be verified; "
        "give 'sha256:' and 64 lower-case hexadecimal digits",
        status=USAGE,
    ),
    Mistake(
        "push digits.carton {new}@" + ABSENT,
        "a push target has a tag, not a digest; leave out the part from '@' on",
        ("push digits.carton {new}",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v 1",
        "'ocibridge push' takes no further argument '1'; see 'ocibridge push --help'",
        ("push --help",),
        USAGE,
    ),
    Mistake(
        "push digits.carton models/digits:v1",
        "the reference 'models/digits:v1' names no registry host; write " + FORMS,
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton oci:",
        "the reference 'oci:' names no path; write oci:DIR:TAG",
        ("push digits.carton oci:DIR:TAG",),
        USAGE,
    ),
    Mistake(
        "push digits.carton http://{new}:v1",
        "'http://{new}:v1' is a web address, not a reference; write {new}:v1",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton user:secret@{new}:v1",
        "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ("login {open} -u user --password-stdin < password.txt", "push digits.carton {new}:v1"),
        USAGE,
    ),
    Mistake(
        "inspect user:secret@{open}/models/digits:v1",
        "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ("login {open} -u user --password-stdin < password.txt", "inspect {open}/models/digits:v1"),
        USAGE,
    ),
    Mistake(
        "verify hf --against user:secret@{open}/models/hf:v1",
        "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ("login {open} -u user --password-stdin < password.txt", "verify hf --against {open}/models/hf:v1"),
        USAGE,
    ),
    Mistake(
        "pull {open}/models/digits:v1 user:secret@{open}/models/new:v1",
        "'{open}/models/new:v1' is a reference, and the target of a pull is a path; "
        "copy between stores with 'ocibridge copy', or write ./ before a path",
        ("copy {open}/models/digits:v1 {new}:v1",),
        USAGE,
    ),
    Mistake(
        "convert hf user:secret@{open}/models/new:v1",
        "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ("login {open} -u user --password-stdin < password.txt", "convert hf {new}:v1"),
        USAGE,
    ),
    Mistake(
        "pull digits.carton out",
        "'digits.carton' is a path, and not a reference; 'ocibridge convert digits.carton TARGET' writes it in "
        "another format",
        ("convert digits.carton TARGET",),
        USAGE,
    ),
    Mistake(
        "copy digits.carton {new}:v1",
        "'digits.carton' is a path, and not a reference; publish it with 'ocibridge push digits.carton TARGET'",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "volume prepare digits.carton",
        "'digits.carton' is a path, and not a reference; publish it with 'ocibridge push digits.carton TARGET'",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "inspect nope",
        "'nope' is neither a path that exists nor a reference; write " + FORMS,
        status=USAGE,
    ),
    Mistake(
        "inspect digits.crton",
        "'digits.crton' is neither a path that exists nor a reference; did you mean digits.carton?",
        ("inspect digits.carton",),
        USAGE,
    ),
    Mistake(
        "copy {open}/models/digits:v1 {new}@" + ABSENT,
        "the target of a copy has a tag, not a digest; leave out the part from '@' on",
        ("copy {open}/models/digits:v1 {new}",),
        USAGE,
    ),
]

SOURCES = [
    Mistake("push nope.bin {new}:v1", "cannot read nope.bin: no such file or directory; check the path"),
    Mistake(
        "push digits {new}:v1",
        "cannot read digits: no such file or directory; did you mean digits.carton?",
        ("push digits.carton {new}:v1",),
    ),
    Mistake(
        "push password.txt {new}:v1",
        "password.txt is nothing that can be read as a model; give one of: " + MODELS,
        ("push digits.mlarchive {new}:v1", "push hf {new}:v2", "push ollama:tinyllama-test {new}:v3"),
    ),
    Mistake(
        "inspect password.txt",
        "password.txt is nothing that can be read as a model; give one of: " + MODELS,
        ("inspect digits.mlarchive", "inspect hf", "inspect ollama:tinyllama-test"),
    ),
    Mistake(
        "push ollama:nope {new}:v1",
        "there is no Ollama model nope:latest in {here}/ollama; there is tinyllama-test:latest, "
        "mylab/tinyllama-test:q8, …",
        ("push ollama:tinyllama-test:latest {new}:v1",),
    ),
    Mistake(
        "push https://huggingface.co/foo/bar {new}:v1",
        "'https://huggingface.co/foo/bar' is on the Hugging Face Hub, which is not read directly; "
        "fetch it with 'hf download foo/bar --local-dir bar', and give the folder bar",
        ("push hf {new}:v1",),
        USAGE,
        dropped="--local-dir",
    ),
    Mistake(
        "push hf://foo/bar {new}:v1",
        "'hf://foo/bar' is on the Hugging Face Hub, which is not read directly; "
        "fetch it with 'hf download foo/bar --local-dir bar', and give the folder bar",
        ("push hf {new}:v1",),
        USAGE,
        dropped="--local-dir",
    ),
    Mistake(
        "push https://user:secret@huggingface.co/foo/bar {new}:v1",
        "'https://huggingface.co/foo/bar' is on the Hugging Face Hub, which is not read directly; "
        "fetch it with 'hf download foo/bar --local-dir bar', and give the folder bar",
        ("push hf {new}:v1",),
        USAGE,
        dropped="--local-dir",
    ),
    Mistake(
        "push https://user:secret@example.com/x.carton {new}:v1",
        "'https://example.com/x.carton' is a web address; fetch it, and name the file or folder",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push - {new}:v1",
        "- is standard input, and a model is not read from front to back; write it to a file, and name that",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push hf {new}:v1 --exact",
        "--exact is for archives, and hf is none; leave it out",
        ("push hf {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --also ollama",
        "--also ollama needs every blob of the model as a layer of its own; add --layers raw-files, and leave "
        "out --compress",
        ("push ollama:tinyllama-test {new}:v1 --also ollama --layers raw-files",),
        USAGE,
        dropped="--compress",
    ),
    Mistake(
        "push digits.carton {new}:v1 --platform linux/amd64",
        "--platform is for the companion image; add --also image, or leave it out",
        ("push digits.carton {new}:v1 --platform linux/amd64 --also image", "push digits.carton {new}:v1"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --compress gzip --layers raw-files",
        "--compress is for tar layers; leave out one of --compress and --layers raw-files",
        ("push digits.carton {new}:v1 --compress gzip", "push digits.carton {new}:v1 --layers raw-files"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --dialect draft --layers raw",
        "the draft dialect has no name for raw layers; use --layers tar, with --compress none or gzip",
        ("push digits.carton {new}:v1 --dialect draft --layers tar --compress none",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 -a org.ocibridge.identity=hack",
        "the annotation 'org.ocibridge.identity' is written by ocibridge itself; leave it out",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 -a noequals",
        "the annotation 'noequals' is malformed; write --annotation KEY=VALUE",
        ("push digits.carton {new}:v1 --annotation KEY=VALUE",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 -a a=1 -a a=2",
        "the annotation 'a' is given twice; leave out one of the two",
        ("push digits.carton {new}:v1 -a a=1",),
        USAGE,
    ),
    Mistake(
        "push hf {new}:v1 --role *.bin=wait",
        "the rule '*.bin=wait' is malformed; write --role 'GLOB=ROLE' with one of: weight, weight.config, doc, "
        "code, dataset",
        ("push hf {new}:v1 --role '*.bin=weight'",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --strip-from",
        "--strip-from is for models of Ollama, and digits.carton is none; leave out --strip-from",
        ("push digits.carton {new}:v1", "push ollama:tinyllama-test {new}:v2 --strip-from"),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --prefix ../x",
        "--prefix: the name '../x' leaves the folder ('..'); write the name of a folder, such as models/",
        ("push digits.carton {new}:v1 --prefix models/",),
        USAGE,
    ),
]

REGISTRIES = [
    Mistake(
        "push digits.carton {dead}/x:v1",
        "{dead}/x: {dead} refused the connection; check the port, and that the registry is running",
    ),
    Mistake(
        "pull {dead}/x:v1 out",
        "{dead}/x: {dead} refused the connection; check the port, and that the registry is running",
    ),
    Mistake(
        "push digits.carton {web}/x:v1",
        "{web}/x: pushing the blob … failed because {web} responded as a web server, not as a registry (status 501); "
        "check the host and the port",
    ),
    Mistake(
        "pull {web}/x:v1 out",
        "{web}/x: pulling the manifest v1 failed because {web} responded as a web server, not as a registry "
        "(status 404); "
        "check the host and the port",
    ),
    Mistake(
        "push digits.carton {auth}/x:v1",
        "{auth}/x: … failed with status 401; run 'ocibridge login {auth}'",
        ("login {auth} -u tester --password-stdin < password.txt", "push digits.carton {auth}/x:v1"),
    ),
    Mistake(
        "pull {auth}/x:v9 out",
        "{auth}/x: pulling the manifest v9 failed with status 401 (UNAUTHORIZED: authentication required); "
        "run 'ocibridge login {auth}'",
        (
            "login {auth} -u tester --password-stdin < password.txt",
            "push digits.carton {auth}/x:v9",
            "pull {auth}/x:v9 out",
        ),
    ),
    Mistake(
        "copy {open}/models/digits:v1 {auth}/y:v1",
        "{auth}/y: looking for the manifest v1 failed with status 401; run 'ocibridge login {auth}'",
        ("login {auth} -u tester --password-stdin < password.txt", "copy {open}/models/digits:v1 {auth}/y:v1"),
    ),
    Mistake(
        "pull {auth}/x:v1 out -u tester",
        "there is no terminal to ask for the password on; give it with --password-stdin",
        (
            "push digits.carton {auth}/x:v1 -u tester --password-stdin < password.txt",
            "pull {auth}/x:v1 out -u tester --password-stdin < password.txt",
        ),
        USAGE,
    ),
    Mistake(
        "push digits.carton {auth}/x:v1 -u tester --password secret",
        "a password on the command line can be read by every user of this machine; "
        "leave it out and type it when asked, or give it with --password-stdin",
        ("push digits.carton {auth}/x:v1 -u tester --password-stdin < password.txt",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {tls}/x:v1",
        "{tls}/x: the TLS certificate of {tls} is not trusted (unable to get local issuer certificate); "
        "name the authority that signed it with --ca-file, or skip the check with --insecure",
        ("push digits.carton {tls}/x:v1 --ca-file ca.pem", "push digits.carton {tls}/x:v1 --insecure"),
    ),
    Mistake(
        "push digits.carton {new}:v1 --registry-config nope.json",
        "--registry-config: there is no file nope.json; check the path, or leave it out",
        ("push digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "push digits.carton {new}:v1 --key-file ca.pem",
        "--key-file is the key of a client certificate; add --cert-file FILE",
        ("push digits.carton {tls}/x:v1 --key-file {keys}/server.key --cert-file {keys}/server.pem --ca-file ca.pem",),
        USAGE,
    ),
    Mistake(
        "login http://{open}",
        "'http://{open}' is an address, not a registry host; run 'ocibridge login {open}'",
        ("login {open} -u me --password-stdin < password.txt",),
        USAGE,
    ),
    Mistake(
        "login {open}/models",
        "'{open}/models' is a repository, not a registry host; run 'ocibridge login {open}'",
        ("login {open} -u me --password-stdin < password.txt",),
        USAGE,
    ),
    Mistake(
        "login {auth} -u tester",
        "there is no terminal to ask for the password on; give it with --password-stdin",
        ("login {auth} -u tester --password-stdin < password.txt",),
        USAGE,
    ),
    Mistake(
        "pull {open}/models/digits:v9 out",
        "{open}/models/digits: pulling the manifest v9 failed with status 404 (MANIFEST_UNKNOWN: manifest unknown); "
        "tags there: v1-image, v1",
        ("pull {open}/models/digits:v1 out",),
    ),
    Mistake(
        "verify {open}/models/digits:v9",
        "{open}/models/digits: pulling the manifest v9 failed with status 404 (MANIFEST_UNKNOWN: manifest unknown); "
        "tags there: v1-image, v1",
        ("verify {open}/models/digits:v1",),
    ),
    Mistake(
        "pull {open}/models/digits@" + ABSENT + " out",
        "{open}/models/digits: pulling the manifest " + ABSENT + " failed with status 404 "
        "(MANIFEST_UNKNOWN: manifest unknown); check the name, the tag and your access rights",
    ),
]

LAYOUTS = [
    Mistake(
        "cat oci:lay:v1 config.json",
        "oci:lay:v1 has no file 'config.json'; files there: model/config.json, …",
        ("cat oci:lay:v1 model/config.json",),
    ),
    Mistake(
        "inspect --raw hf",
        "--raw is for artifacts, and hf is none; leave it out, or give a reference",
        ("inspect hf", "inspect --raw oci:lay:v1"),
        USAGE,
        dropped="--raw",
    ),
    Mistake(
        "verify oci:lay:v1 --against oci:lay:v1 --manifest-only",
        "--against compares files, and --manifest-only reads none; leave one of them out",
        ("verify oci:lay:v1 --against oci:lay:v1",),
        USAGE,
    ),
    Mistake("pull oci:lay:v2 out", "oci:lay has no tag 'v2'; tags there: v1-image, v1", ("pull oci:lay:v1 out",)),
    Mistake(
        "pull oci:nolay:v1 out",
        "there is no layout oci:nolay; check the path, or push something to it first",
        ("push digits.carton oci:nolay:v1", "pull oci:nolay:v1 out"),
    ),
    Mistake(
        "pull oci:hf:v1 out",
        "hf is not an OCI image layout (it has no file oci-layout); name the folder that has oci-layout, "
        "index.json and blobs in it",
        ("pull oci:lay:v1 out",),
    ),
    Mistake(
        "copy {open}/models/digits:v1 oci:password.txt:v1",
        "cannot write oci:password.txt: password.txt is no folder; name a folder",
        ("copy {open}/models/digits:v1 oci:folder:v1",),
    ),
    Mistake(
        "copy --from oci-archive:nope.tar --to {new}",
        "there is no archive oci-archive:nope.tar; check the path, or push something to it first",
        ("copy {open}/models/digits:v1 --to oci-archive:nope.tar", "copy --from oci-archive:nope.tar --to {new}"),
    ),
    Mistake(
        f"copy {{open}}/models/digits:v1 --to oci-archive:{'x' * 300}.tar",
        f"cannot write {'x' * 300}.tar: file name too long; give it a shorter name",
        ("copy {open}/models/digits:v1 --to oci-archive:x.tar",),
    ),
    Mistake(
        "copy {open}/models/digits:v1 --to models.tar",
        "many references go into one archive, and models.tar is none; "
        "write --to oci-archive:FILE; for registries, write a job for 'ocibridge mirror'",
        ("copy {open}/models/digits:v1 --to oci-archive:models.tar", "mirror run job.yaml"),
        USAGE,
    ),
    Mistake(
        "copy {open}/models/digits:v1",
        "a copy needs a source and a target; write 'ocibridge copy SOURCE TARGET', or see --to for many",
        ("copy {open}/models/digits:v1 {new}:v1", "copy {open}/models/digits:v1 --to oci-archive:models.tar"),
        USAGE,
    ),
    Mistake(
        "copy {open}/models/digits:v1 {new}:v1 --force",
        "--force is for copies into and out of an archive; leave it out, as a copy from SOURCE to TARGET moves the tag "
        "and removes nothing; or add --to oci-archive:FILE to pack",
        (
            "copy {open}/models/digits:v1 {new}:v1",
            "copy {open}/models/digits:v1 --to oci-archive:models.tar --force",
        ),
        USAGE,
    ),
    Mistake(
        "copy {open}/models/digits:v1 {new}:v1 --inventory i.json",
        "--inventory is for copies into and out of an archive; leave it out, as a copy from SOURCE to TARGET "
        "moves the tag "
        "and removes nothing; or add --to oci-archive:FILE to pack",
        ("copy {open}/models/digits:v1 --to oci-archive:models.tar --inventory i.json",),
        USAGE,
    ),
    Mistake(
        "convert {open}/models/digits:v1 {open}/models/digits:v2",
        "the dialect is missing; add --dialect with one of: cnai, draft, modelpack",
        ("convert {open}/models/digits:v1 {new}:v2 --dialect modelpack",),
        USAGE,
    ),
]

TARGETS = [
    Mistake(
        "pull {open}/models/digits:v1 digits.carton",
        "cannot write digits.carton: it exists; choose another name, or replace it with --overwrite",
        ("pull {open}/models/digits:v1 other.carton", "pull {open}/models/digits:v1 digits.carton --overwrite"),
    ),
    Mistake(
        "pull {open}/models/digits:v1",
        "cannot write digits.carton: it exists; choose another name, or replace it with --overwrite",
        ("pull {open}/models/digits:v1 other.carton", "pull {open}/models/digits:v1 --overwrite"),
    ),
    Mistake(
        "copy {open}/models/digits:v1 --to oci-archive:digits.carton",
        "cannot write digits.carton: it exists; choose another name, or replace it with --overwrite",
        ("copy {open}/models/digits:v1 --to oci-archive:digits.carton --overwrite",),
    ),
    Mistake(
        "pull {open}/models/hf:v1 password.txt",
        "password.txt takes a model of one file, and this one has 7: …; name a folder: password; or take one of "
        "them with --include",
        ("pull {open}/models/hf:v1 password", "pull {open}/models/hf:v1 other --include config.json"),
    ),
    Mistake(
        "pull {open}/models/digits:v1 x.gguf",
        "x.gguf takes a model of one file, and this one has 15: …; "
        "name the target x.carton for the archive, or x for a folder; or take one of them with --include",
        (
            "pull {open}/models/digits:v1 x.carton",
            "pull {open}/models/digits:v1 x",
            "pull {open}/models/digits:v1 y.pt --include model/model.pt",
        ),
    ),
    Mistake(
        "pull {open}/models/digits:v1 x.crton",
        "x.crton looks like a file, and .crton is the suffix of no format; did you mean x.carton? "
        "For a folder of that name, add --as folder",
        ("pull {open}/models/digits:v1 x.carton", "pull {open}/models/digits:v1 x.crton --as folder"),
        USAGE,
    ),
    Mistake(
        "pull {open}/models/hf:v1 -",
        "standard output takes a model of one file, and this one has 7: …; name a folder: model; or take one of "
        "them with --include",
        ("pull {open}/models/hf:v1 model", "pull {open}/models/hf:v1 - --include config.json"),
    ),
    Mistake(
        "pull {open}/models/digits:v1 /",
        "cannot write /: it is the root of the file system; name a folder",
        ("pull {open}/models/digits:v1 out",),
    ),
    Mistake(
        "pull {open}/models/digits:v1 hf --force",
        "cannot replace hf: 'LICENSE', 'README.md', 'config.json' and 4 more in it were not written by "
        "ocibridge, or were "
        "changed since; leave out --force to keep it and add what is missing, or choose another name "
        "(--delete-existing replaces the whole folder)",
        ("pull {open}/models/digits:v1 hf", "pull {open}/models/digits:v1 hf --delete-existing"),
        dropped="--force",
    ),
    Mistake(
        "pull oci:lay:v1 lay --force",
        "cannot write lay: it is what is read; choose another name",
        ("pull oci:lay:v1 other",),
    ),
    Mistake(
        "convert digits.carton digits.carton --force",
        "cannot write digits.carton: it is what is read; choose another name",
        ("convert digits.carton other.carton",),
    ),
    Mistake(
        "pull {open}/models/digits:v1 out --zip-method deflate",
        "--zip-method is for archives, and out is a folder; leave it out, or name the target x.carton",
        ("pull {open}/models/digits:v1 out", "pull {open}/models/digits:v1 x.carton --zip-method deflate"),
        USAGE,
    ),
    Mistake(
        "pull {open}/models/digits:v1 out --thin",
        "out is no archive, and only an archive can be thin; name the target x.carton",
        ("push digits.carton {new}:v1 --layers raw-files", "pull {new}:v1 x.carton --thin"),
        USAGE,
    ),
    Mistake(
        "pull {open}/models/hf:v1 x.carton",
        "cannot write x.carton: the model has no MANIFEST, so it is no carton; name a folder as the target, "
        "or have a carton made with --runner-name and --framework-version",
        (
            "pull {open}/models/hf:v1 x",
            "pull {open}/models/hf:v1 x.carton --runner-name torch --framework-version =2.0.0",
        ),
    ),
    Mistake(
        "convert hf x.carton",
        "cannot write x.carton: the model has no MANIFEST, so it is no carton; name a folder as the target, "
        "or have a carton made with --runner-name and --framework-version",
        ("convert hf x", "convert hf x.carton --runner-name torch --framework-version =2.0.0"),
    ),
    Mistake(
        "pull {open}/models/hf:v1 ollama:foo",
        "the model cannot become the Ollama model foo:latest: it has no GGUF file; "
        "write it into a folder (name one as the target), and let 'ollama create' convert it there",
        ("pull {open}/models/hf:v1 out",),
    ),
    Mistake(
        "convert digits.carton {new}:v1 --force",
        "--force is for a target on disk, and {new}:v1 is in a store; leave it out",
        ("convert digits.carton {new}:v1",),
        USAGE,
    ),
    Mistake(
        "convert digits.carton out --dialect draft",
        "--dialect is for artifacts; leave it out, or give a reference as the target",
        ("convert digits.carton out", "convert digits.carton {new}:v1 --dialect draft"),
        USAGE,
    ),
    Mistake(
        "verify digits.carton --manifest-only",
        "--manifest-only is for artifacts, and digits.carton is none; leave it out, or give a reference",
        ("verify digits.carton", "push digits.carton {new}:v1 --layers raw-files", "verify {new}:v1 --manifest-only"),
        USAGE,
    ),
]

JOBS = [
    Mistake("mirror run nope.yaml", "cannot read nope.yaml: no such file or directory; check the path"),
    Mistake(
        "mirror run https://user:secret@example.com/job.yaml",
        "https://example.com/job.yaml is a web address; fetch it, and name the file, or pipe it in as -",
        ("mirror run job.yaml", "mirror plan - < job.yaml"),
        USAGE,
    ),
    Mistake("mirror run digits.carton", "digits.carton:1:1: the file is not UTF-8; save it with that encoding"),
    Mistake(
        "mirror run job.yaml --ca-file ca.pem",
        "'ocibridge mirror run' has no option --ca-file; see 'ocibridge mirror run --help'",
        ("mirror run --help",),
        USAGE,
    ),
    Mistake(
        "mirror plan job.yaml --shard 5/2",
        "there is no shard 5 of 2; the index counts from 0, and is less than the number of shards",
        ("mirror plan job.yaml --shard 1/2",),
        USAGE,
    ),
]

MISTAKES = [*COMMAND_LINE, *REFERENCES, *SOURCES, *REGISTRIES, *LAYOUTS, *TARGETS, *JOBS]
