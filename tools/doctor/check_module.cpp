/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The diagnoses of what is installed: module, provider. */
#include "doctor/check.hpp"
#include "doctor/modinfo.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rox::doctor {

namespace {

constexpr const char *from_sources = "make && sudo make install    # in the sources of rox";
constexpr const char *module_package = "apt install ./rox-dkms_*.deb    # the package, or";
constexpr const char
    *provider_package = "apt install ./ibverbs-provider-rox_*.deb    # the package, or";

/* The path of a module for a kernel, as depmod found it; empty if there is none. */
std::string module_path(const Tree &files, const std::string &kernel, std::string_view module)
{
    const std::string folder = "/lib/modules/" + kernel + "/";
    std::istringstream lines(files.read(folder + "modules.dep").value_or(""));

    for (std::string line; std::getline(lines, line);) {
        const std::string path = line.substr(0, line.find(':'));
        const std::string file = path.substr(path.rfind('/') + 1);

        if (file.substr(0, file.find('.')) == module)
            return path.starts_with('/') ? path : folder + path;
    }
    return "";
}

bool has_builtin(const Tree &files, const std::string &kernel, std::string_view module)
{
    const std::string list = files.read("/lib/modules/" + kernel + "/modules.builtin").value_or("");

    return list.find(fmt::format("/{}.ko", module)) != std::string::npos;
}

/* Why the kernel loads only signed modules; empty if it loads all. */
std::string signatures_wanted(const Tree &files)
{
    constexpr std::string_view secure_boot =
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    constexpr size_t value_at = 4; // behind the attributes of the variable
    const std::string boot = files.read(secure_boot).value_or("");
    const std::string lockdown = files.line("/sys/kernel/security/lockdown");

    if (files.line("/sys/module/module/parameters/sig_enforce") == "Y")
        return "module.sig_enforce is on";
    if (lockdown.find('[') != std::string::npos && lockdown.find("[none]") == std::string::npos)
        return "the kernel is locked down";
    /* Linux locks itself down under Secure Boot, but only some kernels show it. */
    if (lockdown.empty() && boot.size() > value_at && boot[value_at] == 1)
        return "Secure Boot is on";
    return "";
}

std::vector<std::string> build_commands(const std::string &kernel)
{
    return {fmt::format("apt install linux-headers-{}", kernel),
            fmt::format("dkms autoinstall -k {}", kernel)};
}

Findings module_missing(const Host &host)
{
    const std::string &kernel = host.process.kernel;
    std::vector<std::string> others;

    for (const std::string &other : host.files.list("/lib/modules"))
        if (other != kernel && !module_path(host.files, other, "rox").empty())
            others.push_back(other);
    if (!others.empty())
        return {{Level::problem,
                 fmt::format("rox.ko is installed for {}, but {} is running",
                             fmt::join(others, ", "), kernel),
                 build_commands(kernel)}};
    return {{Level::problem,
             fmt::format("there is no rox.ko for the running kernel {}", kernel),
             {fmt::format("apt install linux-headers-{}", kernel), module_package, from_sources}}};
}

/* Modules of the kernel itself without which rox.ko is of no use. Kernels for clouds lack them. */
Findings rdma_core_missing(const Host &host)
{
    const std::string &kernel = host.process.kernel;

    for (const char *module : {"ib_core", "ib_uverbs"})
        if (module_path(host.files, kernel, module).empty() &&
            !has_builtin(host.files, kernel, module) &&
            !host.files.exists(fmt::format("/sys/module/{}", module)))
            return {{Level::problem,
                     fmt::format("the running kernel {} has no module {} (the RDMA subsystem)",
                                 kernel, module),
                     {"apt install linux-image-amd64    # Debian; and boot it",
                      fmt::format("apt install linux-modules-extra-{}    # Ubuntu", kernel)}}};
    return {};
}

/* What a module's file says of itself. modinfo(8) reads compressed ones. */
std::optional<ModuleInfo> info_of(const Host &host, const std::string &path)
{
    if (auto info = module_info(host.files.read(path).value_or("")))
        return info;
    const CommandResult printed = host.commands.run({"modinfo", path});
    return printed.ran ? printed_module_info(printed.output) : std::nullopt;
}

Findings info_missing(const std::string &path)
{
    return {{Level::note,
             fmt::format("no modinfo here reads {}: for which kernel it is, and whether it is "
                         "signed, is not known",
                         path),
             {"apt install kmod", fmt::format("modinfo {}", path)}}};
}

Findings file_findings(const Host &host, const std::string &path, const ModuleInfo &info)
{
    const std::string &kernel = host.process.kernel;
    const std::string wanted = signatures_wanted(host.files);
    const bool loaded = host.files.exists("/sys/module/rox");
    const std::string running = host.files.line("/sys/module/rox/srcversion");

    /* With symbol versions a kernel takes modules of others, if all symbols are the same. */
    if (!loaded && info.kernel() != kernel)
        return {{Level::warning,
                 fmt::format("{} was built for {}, and {} is running", path, info.kernel(), kernel),
                 build_commands(kernel)}};
    if (!wanted.empty() && !info.is_signed)
        return {{Level::problem,
                 fmt::format("{} is unsigned, and {}: the kernel refuses it", path, wanted),
                 {"dkms status rox    # DKMS signs what it builds",
                  "mokutil --import /var/lib/dkms/mok.pub    # then reboot and confirm"}}};
    if (!wanted.empty() && !loaded)
        return {{Level::warning,
                 fmt::format("{}: the kernel must know the key that signed {}", wanted, path),
                 {"mokutil --test-key /var/lib/dkms/mok.pub",
                  "mokutil --import /var/lib/dkms/mok.pub    # if it is not enrolled"}}};
    /* Builds of 0.1.0 say nothing of their sources. */
    if (loaded && !info.srcversion.empty() && running != info.srcversion)
        return {
            {Level::warning,
             fmt::format("the module that is loaded is not the one in {}", path),
             {"rdma link delete rox0    # each device of rox", "modprobe -r rox && modprobe rox"}}};
    return {};
}

/* The number in libibverbs' symbol version IBVERBS_PRIVATE_<number>; empty if there is none. */
std::string private_abi(std::string_view library)
{
    constexpr std::string_view mark = "IBVERBS_PRIVATE_";

    for (size_t at = 0; (at = library.find(mark, at)) != std::string_view::npos;) {
        at += mark.size();
        if (const size_t end = library.find_first_not_of("0123456789", at); end > at)
            return std::string(library.substr(at, end - at));
    }
    return "";
}

/* Folders in which distributions have their libraries. */
std::vector<std::string> library_folders(const Tree &files)
{
    std::vector<std::string> folders;

    for (const std::string &name : files.list("/usr/lib"))
        if (name.find("-linux-") != std::string::npos)
            folders.push_back("/usr/lib/" + name);
    folders.insert(folders.end(), {"/usr/lib64", "/usr/lib", "/usr/local/lib"});
    return folders;
}

/* The numbers of the private ABIs for which there is a provider. */
std::set<std::string> provider_abis(const Tree &files, const std::string &folder)
{
    constexpr std::string_view prefix = "librox-rdmav", suffix = ".so";
    std::set<std::string> abis;

    for (const std::string &name : files.list(folder + "/libibverbs"))
        if (name.starts_with(prefix) && name.ends_with(suffix))
            abis.insert(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
    return abis;
}

bool driver_is_named(const Tree &files)
{
    for (const std::string &name : files.list("/etc/libibverbs.d"))
        if (name.ends_with(".driver"))
            for (std::istringstream lines(files.read("/etc/libibverbs.d/" + name).value_or(""));
                 lines;) {
                std::string line;
                std::getline(lines, line);
                if (words(line) == std::vector<std::string>{"driver", "rox"})
                    return true;
            }
    return false;
}

Findings provider_findings(const Tree &files, const std::string &folder, const std::string &abi)
{
    const std::set<std::string> abis = provider_abis(files, folder);

    if (abis.empty())
        return {{Level::problem,
                 fmt::format("there is no provider of rox in {}/libibverbs", folder),
                 {provider_package, from_sources}}};
    if (!abis.contains(abi))
        return {{Level::problem,
                 fmt::format("libibverbs speaks private ABI {}, the provider of rox is for {}", abi,
                             fmt::join(abis, ", ")),
                 {provider_package, fmt::format("make clean && {}", from_sources)}}};
    if (!driver_is_named(files))
        return {{Level::problem,
                 "no file in /etc/libibverbs.d names the provider of rox",
                 {"echo 'driver rox' > /etc/libibverbs.d/rox.driver"}}};
    return {{Level::ok, fmt::format("{}/libibverbs/librox-rdmav{}.so", folder, abi), {}}};
}

} // namespace

Findings ModuleCheck::look(const Host &host, const Options & /*options*/) const
{
    const std::string &kernel = host.process.kernel;
    const std::string path = module_path(host.files, kernel, "rox");
    const bool loaded = host.files.exists("/sys/module/rox");

    if (!loaded) {
        if (Findings found = rdma_core_missing(host); !found.empty())
            return found;
        if (path.empty())
            return module_missing(host);
    }
    if (!path.empty()) {
        const auto info = info_of(host, path);

        if (!info)
            return info_missing(path);
        if (Findings found = file_findings(host, path, *info); !found.empty())
            return found;
    }
    return {{Level::ok,
             loaded ? fmt::format("loaded, for {}", kernel)
                    : fmt::format("{}; the first link loads it", path),
             {}}};
}

Findings ProviderCheck::look(const Host &host, const Options & /*options*/) const
{
    for (const std::string &folder : library_folders(host.files)) {
        const auto library = host.files.read(folder + "/libibverbs.so.1");

        if (library)
            return provider_findings(host.files, folder, private_abi(*library));
    }
    return {{Level::problem,
             "libibverbs.so.1 is not installed",
             {"apt install libibverbs1 ibverbs-utils"}}};
}

} // namespace rox::doctor
