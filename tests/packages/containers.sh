# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Images for containers, for tests/packages/run: the lines of the Dockerfiles in bare roots, and podman in a guest.

# The lines of a Dockerfile, with a bare root for each image, for no program for containers is needed then. The images
# are the folders NAME-1 and so on; the variable stage is the number of the last one.
dockerfile_lines() {
	local file=$1 name=$2 line words image
	stage=0
	while read -r line; do
		read -ra words <<<"$line"
		case $line in
		FROM*) image=$place/$name-$((++stage)) && ROX_KEEP=$image scripts/deb --in trixie true </dev/null ;;
		RUN*) ROX_KEEP=$image scripts/deb --in trixie sh -ec "${line#RUN }" </dev/null ;;
		"COPY --from=build"*) cp -a "$place/$name-1${words[2]}." "$image${words[3]}" ;;
		"COPY build/"*) cp -a "${debs%/deb}/"${words[1]#build/} "$image${words[2]}" ;;
		COPY*) mkdir -p "$(dirname "$image${words[2]}")" && cp -a "${words[1]}" "$image${words[2]}" ;;
		esac || return
	done <"packaging/container/$file"
}

dockerfile() {
	local stage
	dockerfile_lines Dockerfile image && ((stage == 2)) && ROX_KEEP=$place/image-2 scripts/deb --in trixie sh -ec '
		ldd -r /usr/lib/*/libibverbs/librox-rdmav34.so >/tmp/ldd 2>&1
		! grep -e undefined -e "not found" /tmp/ldd
		grep -x "driver rox" /etc/libibverbs.d/rox.driver
		test -x /usr/bin/ibv_devices
		test ! -e /usr/bin/g++'
}

# A user of the image, who has no devices.
dockerfile_run() {
	local stage
	dockerfile_lines Dockerfile.run run && ((stage == 1)) && ROX_KEEP=$place/run-1 scripts/deb --in trixie sh -ec '
		test ! -e /dev/infiniband
		test -z "$(ls /tmp)"
		useradd --create-home ci
		su - ci -c "rox-run -- ibv_devinfo -d rox0" | tee /tmp/out
		grep "hca_id:.*rox0" /tmp/out'
}

# Podman with a store of its own, which needs no cgroups and no network of containers to build.
podman_here() {
	env BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF="$place/storage.conf" "$@"
}

# $place/store has the image under both names that the compose file leads to, built on this machine, because guests have
# no network, and emulation is slow. No registry is asked: a bare root stands in for what the Dockerfile begins with.
images() {
	local base
	base=$(sed -n 's/^ARG BASE=//p' packaging/container/Dockerfile) && [[ $base == debian:trixie* ]] &&
		printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$place/store" "$place/run" \
			>"$place/storage.conf" &&
		ROX_KEEP=$place/base scripts/deb --in trixie true &&
		tar -C "$place/base" -c . | podman_here podman import - "docker.io/library/$base" &&
		podman_here podman build -t container_server -t container_client -f packaging/container/Dockerfile . &&
		podman_here podman image exists localhost/container_server && podman_here podman image ls
}

# The guest is this machine with its podman, and with rox as `make install` puts it. The containers have nothing of it
# but the devices.
in_guest() {
	local status=0
	scripts/vm --cpus 2 --mem 4096 --timeout 1500 -- tests/packages/containers "$place/store" \
		>"$ROX_TMP/containers" 2>&1 || status=$?
	tap_relay "containers: " "the guest ended well" "$status" "$ROX_TMP/containers"
}

containers() {
	scripts/deps --quick podman >&2 && make -s --no-print-directory KVER=6.12 module provider >&2 || exit
	tap_run "containers: podman builds the image by the Dockerfile" images
	in_guest
	podman_here podman system reset --force >/dev/null 2>&1
}
