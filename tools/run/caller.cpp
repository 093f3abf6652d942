/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/caller.hpp"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <termios.h>
#include <unistd.h>

namespace rox::run {
namespace {

void take_limits(Job &job)
{
    for (int resource = 0; resource < RLIMIT_NLIMITS; resource++) {
        rlimit limit{};

        if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0)
            job.limits.push_back({resource, limit.rlim_cur, limit.rlim_max});
    }
}

uint64_t ignored_signals()
{
    uint64_t ignored = 0;

    for (int number = 1; number < 64; number++) {
        struct sigaction action {};

        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            ignored |= uint64_t{1} << number;
    }
    return ignored;
}

std::string cpu_mhz()
{
    std::ifstream file("/proc/cpuinfo");

    for (std::string line; std::getline(file, line);)
        if (line.starts_with("cpu MHz"))
            return line.substr(line.find(':') + 2);
    return {};
}

bool same_file(int one, int other)
{
    struct stat first {
    }, second{};

    return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/// Whether the host's kernel makes what is read from a file: such files have no size, or one that
/// says nothing, and hostfs and 9p read no more than the size says.
bool is_made_by_kernel(int fd, const struct stat &status)
{
    constexpr long configfs = 0x62656570; // older headers have it not
    struct statfs system {};

    if (status.st_size == 0 || fstatfs(fd, &system) != 0)
        return true;
    for (const long type : {long{PROC_SUPER_MAGIC}, long{SYSFS_MAGIC}, long{CGROUP_SUPER_MAGIC},
                            long{CGROUP2_SUPER_MAGIC}, long{DEBUGFS_MAGIC}, long{TRACEFS_MAGIC},
                            long{SECURITYFS_MAGIC}, long{BPF_FS_MAGIC}, long{PSTOREFS_MAGIC},
                            long{EFIVARFS_MAGIC}, long{SELINUX_MAGIC}, long{SMACK_MAGIC}, configfs})
        if (system.f_type == type)
            return true;
    return false;
}

/// Standard input from a file is read by the command itself, so that no more of it is gone than it
/// has read.
bool take_input_file(Job &job)
{
    struct stat status {};
    std::error_code error;
    const int flags = fcntl(0, F_GETFL);

    if (fstat(0, &status) != 0 || !S_ISREG(status.st_mode) || flags < 0 ||
        (flags & O_ACCMODE) == O_WRONLY || is_made_by_kernel(0, status))
        return false;
    const auto path = std::filesystem::read_symlink("/proc/self/fd/0", error);
    struct stat named {};
    if (error || stat(path.c_str(), &named) != 0 || named.st_ino != status.st_ino ||
        named.st_dev != status.st_dev || access(path.c_str(), R_OK) != 0)
        return false;
    job.input_file = path;
    job.input_offset = static_cast<uint64_t>(std::max<off_t>(lseek(0, 0, SEEK_CUR), 0));
    return true;
}

/// Where the first process lays files of its own over those of the host, or makes some, and where
/// links of the host lead from there.
std::vector<std::string> laid_places(const Job &job)
{
    std::vector<std::string> places = {"/etc/hosts", "/etc/libibverbs.d", "/run/netns",
                                       "/run/rox-run"};

    if (!job.provider_target.empty())
        places.push_back(job.provider_target);
    for (size_t i = 0, count = places.size(); i < count; i++) {
        std::error_code error;
        const auto real = std::filesystem::weakly_canonical(places[i], error);

        if (!error)
            places.push_back(real);
    }
    return places;
}

/// The settings of the command's terminal, if the caller's is in no raw mode: lines, and nothing
/// else, because the caller's does the rest.
termios plain(termios settings)
{
    settings.c_iflag &= ~static_cast<tcflag_t>(ISTRIP | INLCR | IGNCR | ICRNL | IXON | IXOFF);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    settings.c_lflag &= ~static_cast<tcflag_t>(ISIG | ECHO | ECHONL | IEXTEN);
    settings.c_lflag |= ICANON;
    settings.c_cc[VEOF] = 4;
    return settings;
}

void take_terminal(Job &job, int fd, bool raw)
{
    termios settings{};
    winsize size{};

    tcgetattr(fd, &settings);
    if (!raw)
        settings = plain(settings);
    ioctl(fd, TIOCGWINSZ, &size);
    job.rows = size.ws_row;
    job.columns = size.ws_col;
    job.termios.clear();
    for (size_t i = 0; i < sizeof(settings); i++)
        job.termios += fmt::format("{:02x}", reinterpret_cast<const unsigned char *>(&settings)[i]);
}

/// A number with one of the units behind it, as tc(8) writes them.
double quantity(const std::string &text, const std::map<std::string, double> &units)
{
    size_t end = 0;

    try {
        const double value = std::stod(text, &end);

        if (const auto unit = units.find(text.substr(end));
            unit != units.end() && value >= 0 && std::isfinite(value))
            return value * unit->second;
    } catch (const std::logic_error &) {
    }
    throw std::runtime_error(fmt::format("--link: '{}' is no quantity", text));
}

} // namespace

void take_caller(Job &job)
{
    char name[65] = {};
    std::error_code error;
    const mode_t mask = umask(0);

    umask(mask);
    job.umask = mask;
    for (char **variable = environ; *variable != nullptr; variable++)
        job.environment.emplace_back(*variable);
    job.environment.emplace_back("ROX_RUN=1");
    job.folder = std::filesystem::current_path(error);
    if (error)
        throw std::runtime_error(fmt::format("the working folder: {}", error.message()));
    gethostname(name, sizeof(name) - 1);
    job.hostname = name;
    job.mhz = cpu_mhz();
    job.ignored = ignored_signals();
    take_limits(job);
}

void take_user(Job &job)
{
    std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));

    job.uid = getuid();
    job.gid = getgid();
    if (getgroups(static_cast<int>(groups.size()), groups.data()) >= 0)
        job.groups.assign(groups.begin(), groups.end());
}

void check_writable(const Job &job)
{
    const auto places = laid_places(job);

    for (size_t i = 0; i < job.writable.size(); i++) {
        const std::string &folder = job.writable[i];

        // Of this working folder nothing stays.
        if (i == 0 && folder == "/")
            continue;
        for (const auto &place : places)
            if ((place + '/').starts_with(folder == "/" ? folder : folder + '/'))
                throw std::runtime_error(
                    fmt::format("{} {} cannot be written: rox-run has its own {} there",
                                i == 0 ? "the working folder" : "--write:", folder, place));
    }
}

void take_streams(Job &job, bool raw)
{
    for (int fd = 0; fd < 3; fd++) {
        Stream &stream = job.streams[fd];

        if (fcntl(fd, F_GETFD) < 0)
            stream = Stream::closed;
        else if (isatty(fd) != 0)
            stream = Stream::terminal;
        else
            stream = Stream::pipe;
        if (stream == Stream::terminal && job.termios.empty())
            take_terminal(job, fd, raw);
    }
    // No file that is opened from here on has the number of a stream.
    for (int fd = 0; fd <= 2 && fd >= 0;) {
        fd = open("/dev/null", O_RDWR);
        if (fd > 2)
            close(fd);
    }
    if (job.streams[0] == Stream::pipe && take_input_file(job))
        job.streams[0] = Stream::file;
    if (job.streams[1] == Stream::pipe && job.streams[2] == Stream::pipe && same_file(1, 2))
        job.streams[2] = Stream::output;
}

Link parse_link(const std::string &text)
{
    static const std::map<std::string, double> times = {
        {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"", 1e3}};
    static const std::map<std::string, double> rates = {
        {"bit", 1. / 8}, {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};
    constexpr double most_loss = 100, least_mtu = 1280, most_mtu = 65535;
    std::istringstream words(text);
    Link link;

    for (std::string name, value; words >> name;) {
        if (!(words >> value))
            throw std::runtime_error(fmt::format("--link: '{}' needs a value", name));
        if (name == "mtu")
            link.mtu = static_cast<uint32_t>(quantity(value, {{"", 1}}));
        else if (name == "delay")
            link.delay_ns = static_cast<uint64_t>(quantity(value, times));
        else if (name == "jitter")
            link.jitter_ns = static_cast<uint64_t>(quantity(value, times));
        else if (name == "loss")
            link.loss = quantity(value, {{"%", 1}, {"", 1}});
        else if (name == "rate")
            link.rate = static_cast<uint64_t>(quantity(value, rates));
        else
            throw std::runtime_error(
                fmt::format("--link knows mtu, delay, jitter, loss and rate, not '{}'", name));
    }
    if (link.loss > most_loss || link.mtu < least_mtu || link.mtu > most_mtu)
        throw std::runtime_error("--link: loss is up to 100%, mtu 1280 to 65535");
    return link;
}

} // namespace rox::run
