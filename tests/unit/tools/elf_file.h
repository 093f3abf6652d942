/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Small libraries that a test makes.
 */
#ifndef ROX_TESTS_UNIT_TOOLS_ELF_FILE_H
#define ROX_TESTS_UNIT_TOOLS_ELF_FILE_H

#include "lib/file.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gelf.h>
#include <gtest/gtest.h>
#include <libelf.h>

namespace rox::test {

/// A library that has nothing but definitions of symbol versions, and their names.
class ElfFile {
public:
    /// Each version has the one before it as its parent, as linkers write them.
    explicit ElfFile(const std::vector<std::string> &versions)
    {
        std::string parent;

        for (const auto &version : versions) {
            define(version, parent);
            parent = version;
        }
    }

    ElfFile &machine(Elf64_Half machine)
    {
        machine_ = machine;
        return *this;
    }
    ElfFile &type(Elf64_Half type)
    {
        type_ = type;
        return *this;
    }
    /// Lets the last definition lead on, by so many bytes, in a list that has no end.
    ElfFile &endless(int step)
    {
        std::memcpy(definitions_.data() + last_ + offsetof(Elf64_Verdef, vd_next), &step,
                    sizeof(step));
        count_ = ~Elf64_Word{0};
        return *this;
    }

    void write(const std::string &path)
    {
        const File file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));

        elf_version(EV_CURRENT);
        Elf *const elf = elf_begin(file.get(), ELF_C_WRITE, nullptr);
        ASSERT_NE(elf, nullptr) << elf_errmsg(-1);
        Elf64_Ehdr *const header = elf64_newehdr(elf);
        header->e_ident[EI_DATA] = ELFDATA2LSB;
        header->e_machine = machine_;
        header->e_type = type_;
        header->e_version = EV_CURRENT;
        Elf64_Shdr *const names = add(elf, names_, ELF_T_BYTE);
        names->sh_type = SHT_STRTAB;
        Elf64_Shdr *const versions = add(elf, definitions_, ELF_T_VDEF);
        versions->sh_type = SHT_GNU_verdef;
        versions->sh_link = 1; // the section of names
        versions->sh_info = count_;
        EXPECT_GT(elf_update(elf, ELF_C_WRITE), 0) << elf_errmsg(-1);
        elf_end(elf);
    }

private:
    template <typename T>
    void append(const T &structure)
    {
        definitions_.append(reinterpret_cast<const char *>(&structure), sizeof(structure));
    }

    Elf64_Word name(const std::string &text)
    {
        const auto place = static_cast<Elf64_Word>(names_.size());

        names_.append(text).append(1, '\0');
        return place;
    }

    void define(const std::string &version, const std::string &parent)
    {
        const Elf64_Half names = parent.empty() ? 1 : 2;
        const auto size = static_cast<Elf64_Word>(sizeof(Elf64_Verdef) +
                                                  names * sizeof(Elf64_Verdaux));

        if (count_ > 0)
            std::memcpy(definitions_.data() + last_ + offsetof(Elf64_Verdef, vd_next), &size_,
                        sizeof(size_));
        last_ = definitions_.size();
        size_ = size;
        append(Elf64_Verdef{VER_DEF_CURRENT, 0, static_cast<Elf64_Half>(++count_), names, 0,
                            sizeof(Elf64_Verdef), 0});
        const Elf64_Word to_parent = parent.empty() ? 0 : sizeof(Elf64_Verdaux);
        append(Elf64_Verdaux{name(version), to_parent});
        if (!parent.empty())
            append(Elf64_Verdaux{name(parent), 0});
    }

    static Elf64_Shdr *add(Elf *elf, std::string &content, Elf_Type type)
    {
        Elf_Scn *const section = elf_newscn(elf);
        Elf_Data *const data = elf_newdata(section);

        data->d_buf = content.data();
        data->d_size = content.size();
        data->d_type = type;
        data->d_align = sizeof(Elf64_Word);
        data->d_version = EV_CURRENT;
        return elf64_getshdr(section);
    }

    std::string names_ = std::string(1, '\0'), definitions_;
    size_t last_ = 0;
    Elf64_Word size_ = 0, count_ = 0;
    Elf64_Half machine_ = EM_X86_64, type_ = ET_DYN;
};

} // namespace rox::test

#endif // ROX_TESTS_UNIT_TOOLS_ELF_FILE_H
