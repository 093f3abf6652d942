/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/world.hpp"

#include "run/init/host.hpp"
#include "run/init/system.hpp"

#include <algorithm>
#include <cerrno>

#include <dirent.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rox::run {
namespace {

void mount_at(const char *type, const std::string &place, unsigned long flags, const char *options)
{
    need(mount(type, place.c_str(), type, flags, options) == 0,
         std::string("mount of ") + type + " at " + place);
}

void make(const char *path)
{
    need(mkdir(path, 0755) == 0 || errno == EEXIST, path);
}

void move_mount_to(const std::string &from, const std::string &to)
{
    need(mount(from.c_str(), to.c_str(), nullptr, MS_MOVE, nullptr) == 0,
         "moving the mount " + from);
}

/// Whether a path is a folder or lies in it.
bool is_in(const std::string &path, const std::string &folder)
{
    return path == folder || path.compare(0, folder.size() + 1, folder + '/') == 0;
}

/// The host's folders below the new root whose changes stay. The first process is in the new root
/// already.
void pass_through(const Job &job)
{
    for (size_t i = 0; i < job.writable.size(); i++) {
        const std::string &folder = job.writable[i];

        // These are the kernel's own inside.
        if (folder == "/" || is_in(folder, "/proc") || is_in(folder, "/sys") || folder == "/dev")
            continue;
        need(mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST || errno == EROFS, folder);
        need(mount_writable(i, folder), "mount of the host's " + folder);
    }
}

void link_file(const char *to, const char *path)
{
    if (symlink(to, path) != 0 && errno != EEXIST)
        fail(path, errno);
}

void furnish_dev()
{
    make("/dev/pts");
    make("/dev/shm");
    make("/dev/mqueue");
    mount_at("devpts", "/dev/pts", 0, "mode=620,ptmxmode=666");
    mount_at("tmpfs", "/dev/shm", 0, "mode=1777");
    mount("mqueue", "/dev/mqueue", "mqueue", 0, nullptr); // kernels with debugging have none
    link_file("/proc/self/fd", "/dev/fd");
    link_file("fd/0", "/dev/stdin");
    link_file("fd/1", "/dev/stdout");
    link_file("fd/2", "/dev/stderr");
    unlink("/dev/ptmx");
    link_file("pts/ptmx", "/dev/ptmx");
    for (const char *name : {"null", "zero", "full", "random", "urandom", "tty", "net/tun"})
        chmod((std::string("/dev/") + name).c_str(), 0666);
}

/**
 * Lays the provider over the file system. libibverbs loads each provider that /etc/libibverbs.d
 * names into each program. No device is there but rox', so its provider is the only one that is
 * named.
 */
void lay_provider(const Job &job)
{
    constexpr const char *drivers = "/etc/libibverbs.d";
    const std::string provider = read_file(host_root + job.provider);

    if (job.provider.empty())
        return;
    if (provider.empty())
        fail("reading " + job.provider, errno);
    need(make_folders(job.provider_target.substr(0, job.provider_target.rfind('/'))) &&
             write_file(job.provider_target, provider),
         job.provider_target);
    need(make_folders(drivers), drivers);
    mount_at("tmpfs", drivers, 0, "mode=755,size=64k");
    need(write_file(std::string(drivers) + "/rox.driver", "driver rox\n"), drivers);
}

/// Where the file system may have a program of the system.
bool is_installed(const std::string &name)
{
    for (const char *const folder :
         {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/sbin/"})
        if (access((folder + name).c_str(), F_OK) == 0)
            return true;
    return false;
}

/// Copies the files of a folder.
void copy_files(const std::string &from, const std::string &to)
{
    DIR *const folder = opendir(from.c_str());

    need(folder != nullptr && make_folders(to), from);
    while (const dirent *const entry = readdir(folder)) {
        const std::string name = std::string("/") + entry->d_name;

        if (name == "/." || name == "/..")
            continue;
        need(write_file(to + name, read_file(from + name)) && chmod((to + name).c_str(), 0755) == 0,
             to + name);
    }
    closedir(folder);
}

/// Lays ip and rdma over a file system that has them not. They bring their libraries along.
void lay_programs(const Job &job)
{
    constexpr const char *place = "/run/rox-run/programs";
    bool copied = false;

    for (const std::string name : {"ip", "rdma"}) {
        if (job.programs.empty() || is_installed(name))
            continue;
        if (!copied)
            copy_files(host_root + job.programs, place);
        copied = true;
        link_file((std::string(place) + '/' + name).c_str(), ("/usr/local/bin/" + name).c_str());
    }
}

/// perftest divides by the MHz of /proc/cpuinfo, which User Mode Linux does not tell.
void tell_mhz(const std::string &mhz)
{
    constexpr const char *place = "/run/rox-run/cpuinfo";
    std::string text = read_file("/proc/cpuinfo"), with;

    if (mhz.empty() || text.find("cpu MHz") != text.npos)
        return;
    // Of each CPU, after its number.
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
        end = std::min(text.find('\n', at), text.size());
        with.append(text, at, end - at).append(1, '\n');
        if (text.compare(at, 9, "processor") == 0)
            with += "cpu MHz\t\t: " + mhz + '\n';
    }
    need(write_file(place, with) && mount(place, "/proc/cpuinfo", nullptr, MS_BIND, nullptr) == 0,
         place);
}

/// What programs of RDMA need, and what is not worth an error.
void set_kernel()
{
    write_file("/proc/sys/vm/panic_on_oom", "1");
    write_file("/proc/sys/vm/overcommit_memory", "1");
    write_file("/proc/sys/fs/nr_open", "1073741816");
    write_file("/proc/sys/kernel/core_pattern", "core");
    write_file("/proc/sys/kernel/printk", "4");
    write_file("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
}

} // namespace

void mount_first()
{
    for (const char *folder : {"/proc", "/sys", "/dev", "/host", "/rw", "/root.new"})
        make(folder);
    mount("proc", "/proc", "proc", 0, nullptr);
    mount("sysfs", "/sys", "sysfs", 0, nullptr);
    mount("devtmpfs", "/dev", "devtmpfs", 0, nullptr);
}

void enter_world(const Job &job)
{
    const std::string root = "/root.new";

    need(mount_host("/host"), "mount of the host's files");
    mount_at("tmpfs", "/rw", 0, "mode=755,size=75%");
    make("/rw/upper");
    make("/rw/work");
    mount_at("overlay", root, 0, "lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work,volatile");
    for (const char *folder : {"/proc", "/sys", "/dev", "/run", "/run/netns", "/run/rox-run",
                               "/run/rox-run/host", "/tmp"})
        make((root + folder).c_str());
    move_mount_to("/host", root + host_root);
    for (const char *folder : {"/proc", "/sys", "/dev"})
        move_mount_to(folder, root + folder);
    need(chdir(root.c_str()) == 0 && mount(".", "/", nullptr, MS_MOVE, nullptr) == 0 &&
             chroot(".") == 0 && chdir("/") == 0,
         "the new root");
    furnish_dev();
    lay_provider(job);
    tell_mhz(job.mhz);
    set_kernel();
    // For `rox-run -n NODE`, where the host has it not in the PATH.
    make_folders("/usr/local/bin");
    link_file(job.program.c_str(), "/usr/local/bin/rox-run");
    lay_programs(job);
    pass_through(job);
}

void name_hosts(const Job &job, const std::string &lines)
{
    const bool numbered = job.nodes > 1 || job.join_pipe != 0;
    const std::string name = numbered ? node_name(job.address) : job.hostname;

    sethostname(name.data(), name.size());
    // The first line with a name counts.
    write_file("/etc/hosts", lines + read_file("/etc/hosts"));
}

} // namespace rox::run
