// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Files in sysfs: attributes of devices, parameters of the module.
#pragma once

#include <string>

namespace vt {

/// The file @p name of a device. That of the initial namespace: others lack some files.
std::string attribute(const std::string &device, const std::string &name);

/// Writes @p text to @p path. Returns 0 or the errno value of write(). Fails if there is no file.
int write_attribute(const std::string &path, const std::string &text);

/// Sets an attribute. The destructor writes what it is then to be.
class Setting {
public:
    /// @p after is what the destructor writes; without it, what the file has now.
    Setting(std::string path, const std::string &text, std::string after);
    Setting(const std::string &path, const std::string &text);
    ~Setting();
    Setting(const Setting &) = delete;
    Setting &operator=(const Setting &) = delete;

    void set(const std::string &text) const;
    std::string get() const;

private:
    std::string path_, after_;
};

} // namespace vt
