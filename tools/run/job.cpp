/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/job.hpp"

#include <cstdlib>

namespace rox::run {
namespace {

class Writer {
public:
    void add(std::string_view name, std::string_view value)
    {
        text_.append(name).append(1, '=').append(value).append(1, '\0');
    }
    void add(std::string_view name, uint64_t value) { add(name, std::to_string(value)); }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

uint64_t number(std::string_view text)
{
    return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

/// The numbers in a text, separated by spaces.
std::vector<uint64_t> numbers(std::string_view text)
{
    std::vector<uint64_t> found;

    while (!text.empty()) {
        const size_t end = text.find(' ');

        found.push_back(number(text.substr(0, end)));
        text = end == text.npos ? std::string_view{} : text.substr(end + 1);
    }
    return found;
}

bool read_lists(Job &job, std::string_view name, std::string_view value)
{
    if (name == "argument")
        job.arguments.emplace_back(value);
    else if (name == "variable")
        job.environment.emplace_back(value);
    else if (name == "writable")
        job.writable.emplace_back(value);
    else if (name == "group")
        job.groups.push_back(static_cast<uint32_t>(number(value)));
    else if (const auto n = numbers(value); name == "limit" && n.size() == 3)
        job.limits.push_back({static_cast<int>(n[0]), n[1], n[2]});
    else
        return false;
    return true;
}

bool read_texts(Job &job, std::string_view name, std::string_view value)
{
    std::string *const target = name == "folder"            ? &job.folder
                                : name == "hostname"        ? &job.hostname
                                : name == "mhz"             ? &job.mhz
                                : name == "provider"        ? &job.provider
                                : name == "provider_target" ? &job.provider_target
                                : name == "program"         ? &job.program
                                : name == "programs"        ? &job.programs
                                : name == "input_file"      ? &job.input_file
                                : name == "termios"         ? &job.termios
                                : name == "resolver"        ? &job.resolver
                                                            : nullptr;

    if (target == nullptr)
        return false;
    *target = value;
    return true;
}

bool read_numbers(Job &job, std::string_view name, std::string_view value)
{
    const auto all = numbers(value);
    const uint64_t first = all.empty() ? 0 : all[0];

    if (name == "umask")
        job.umask = static_cast<unsigned>(first);
    else if (name == "ignored")
        job.ignored = first;
    else if (name == "user" && all.size() == 2)
        job.uid = static_cast<uint32_t>(first), job.gid = static_cast<uint32_t>(all[1]);
    else if (name == "input_offset")
        job.input_offset = first;
    else if (name == "window" && all.size() == 2)
        job.rows = static_cast<uint16_t>(first), job.columns = static_cast<uint16_t>(all[1]);
    else if (name == "nodes")
        job.nodes = static_cast<unsigned>(first);
    else if (name == "address")
        job.address = static_cast<unsigned>(first);
    else if (name == "join_pipe")
        job.join_pipe = static_cast<int>(first);
    else if (name == "way_out" && all.size() == 2)
        job.way_out_pipe = static_cast<int>(first), job.way_out6 = all[1] != 0;
    else if (name == "link" && all.size() == 5)
        job.link = {static_cast<uint32_t>(first), all[1], all[2], static_cast<double>(all[3]) / 1e6,
                    all[4]};
    else
        return false;
    return true;
}

bool read_streams(Job &job, std::string_view name, std::string_view value)
{
    if (name != "streams" || value.size() != 3)
        return false;
    for (size_t i = 0; i < 3; i++)
        job.streams[i] = static_cast<Stream>(value[i]);
    return true;
}

} // namespace

std::string encode(const Job &job)
{
    Writer writer;

    for (const auto &argument : job.arguments)
        writer.add("argument", argument);
    for (const auto &variable : job.environment)
        writer.add("variable", variable);
    for (const auto &folder : job.writable)
        writer.add("writable", folder);
    for (const uint32_t group : job.groups)
        writer.add("group", group);
    for (const Limit &limit : job.limits)
        writer.add("limit", std::to_string(limit.resource) + ' ' + std::to_string(limit.soft) +
                                ' ' + std::to_string(limit.hard));
    writer.add("folder", job.folder);
    writer.add("umask", job.umask);
    writer.add("ignored", job.ignored);
    writer.add("user", std::to_string(job.uid) + ' ' + std::to_string(job.gid));
    writer.add("hostname", job.hostname);
    writer.add("mhz", job.mhz);
    writer.add("provider", job.provider);
    writer.add("provider_target", job.provider_target);
    writer.add("program", job.program);
    writer.add("programs", job.programs);
    writer.add("streams",
               std::string{static_cast<char>(job.streams[0]), static_cast<char>(job.streams[1]),
                           static_cast<char>(job.streams[2])});
    writer.add("input_file", job.input_file);
    writer.add("input_offset", job.input_offset);
    writer.add("termios", job.termios);
    writer.add("window", std::to_string(job.rows) + ' ' + std::to_string(job.columns));
    writer.add("nodes", job.nodes);
    writer.add("address", job.address);
    writer.add("join_pipe", static_cast<uint64_t>(job.join_pipe));
    writer.add("way_out", std::to_string(job.way_out_pipe) + (job.way_out6 ? " 1" : " 0"));
    writer.add("resolver", job.resolver);
    writer.add("link", std::to_string(job.link.mtu) + ' ' + std::to_string(job.link.delay_ns) +
                           ' ' + std::to_string(job.link.jitter_ns) + ' ' +
                           std::to_string(static_cast<uint64_t>(job.link.loss * 1e6)) + ' ' +
                           std::to_string(job.link.rate));
    return writer.take();
}

std::optional<Job> decode(std::string_view text)
{
    Job job;

    while (!text.empty()) {
        const size_t end = text.find('\0'), middle = text.find('=');

        if (end == text.npos || middle > end)
            return {};
        const std::string_view name = text.substr(0, middle),
                               value = text.substr(middle + 1, end - middle - 1);
        if (!read_lists(job, name, value) && !read_texts(job, name, value) &&
            !read_numbers(job, name, value) && !read_streams(job, name, value))
            return {};
        text = text.substr(end + 1);
    }
    return job;
}

} // namespace rox::run
