# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# rox-run's part `tarball`, for tests/run/run: what `make run-tarball` packs runs from any folder.

# unpack FOLDER
unpack() {
	"${as_nobody[@]}" mkdir -p "$1" && "${as_nobody[@]}" tar -xf "$build/rox-run.tar.xz" -C "$1"
}

# A user who has only the tarball unpacks it.
tarball_made() {
	make -s --no-print-directory -C "$repo" run-tarball && chmod 644 "$build/rox-run.tar.xz" &&
		unpack "$work/home/any where" && test -x "$work/home/any where/rox-run/bin/rox-run"
}

# unpacked CASE...: the case, with the rox-run of the tarball.
unpacked() {
	local program="$work/home/any where/rox-run/bin/rox-run"
	"$@"
}

# It takes its own kernel, and no other that may be there.
own_image() {
	rox -v -- true </dev/null 2>"$ROX_TMP/errors"
	cat "$ROX_TMP/errors"
	grep -q "^rox-run: $work/home/any where/rox-run/lib/rox-run/linux with " "$ROX_TMP/errors"
}

# A project whose test needs a device, in a folder named "$1", as CI has it.
project() {
	"${as_nobody[@]}" mkdir "$1" && cp "$build/rox-run.tar.xz" "$1" &&
		printf 'check:\n\tibv_devinfo -d rox0\n' >"$1/Makefile" && chmod 644 "$1/Makefile"
}

# Without sudo, as a user who is root of nothing.
github_lines() {
	local lines
	lines=$("$here/lines" "$repo/Documentation/ci.md" jobs) && project "$work/home/project" &&
		(cd "$work/home/project" && as_user bash -ec "$lines" </dev/null) >"$ROX_TMP/out" && cat "$ROX_TMP/out" &&
		grep -q 'hca_id:.*rox0' "$ROX_TMP/out"
}

part_tarball() {
	local folder
	[[ -z $kernel && -z ${ROX_QUICK:-} ]] || return 0
	tap_run "the tarball: made, and unpacked by a user in a folder with a blank" tarball_made
	tap_run "the tarball: its own kernel" unpacked own_image
	tap_run "the tarball: ibv_devinfo" unpacked device_there
	tap_run "ci.md: the lines of the example for GitHub Actions" github_lines
	if [[ " ${roots[*]} " != *" trixie "* ]] || ! in_root / as_user true 2>"$ROX_TMP/errors"; then
		tap_skip "the tarball: ibv_devinfo in Debian 13" "no root of it, or no bubblewrap"
		return
	fi
	folder=$("$repo/scripts/roots" path trixie)
	tap_run "the tarball: ibv_devinfo in Debian 13" in_root "$folder" unpacked device_there
}
