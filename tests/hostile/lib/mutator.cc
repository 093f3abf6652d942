// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/mutator.h"
#include "lib/offers.h"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <vector>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hostile {

namespace {

constexpr std::size_t kPage = 4096;

/// What pointers are replaced with: room that nobody needs, and places that are none.
class Places {
public:
    Places() : base_(static_cast<std::uint8_t *>(map(kPages * kPage, PROT_READ | PROT_WRITE)))
    {
        mprotect(base_ + 16 * kPage, kPage, PROT_READ);
        mprotect(base_ + 17 * kPage, kPage, PROT_NONE);
    }
    ~Places() { munmap(base_, kPages * kPage); }

    /// Writable, with @p size bytes, which begin as those at @p from do.
    std::uint8_t *copy_of(const void *from, std::size_t size)
    {
        std::uint8_t *place = base_ + next_;
        next_ = (next_ + 1024) % (8 * kPage);
        std::memcpy(place, from, std::min<std::size_t>(size, kPage));
        return place;
    }
    /// Did copy_of() return that?
    bool is_copy(std::uint64_t address) const
    {
        auto base = reinterpret_cast<std::uintptr_t>(base_);
        return address >= base && address < base + 8 * kPage;
    }
    std::uint64_t room() const { return reinterpret_cast<std::uintptr_t>(base_ + 9 * kPage); }
    std::uint64_t wrong(Chance &chance) const
    {
        const std::array<std::uint64_t, 7> all = {
            0,
            1,
            0xffff888000001000,
            ~0ull - 7,
            reinterpret_cast<std::uintptr_t>(base_ + 16 * kPage),
            reinterpret_cast<std::uintptr_t>(base_ + 17 * kPage),
            reinterpret_cast<std::uintptr_t>(base_ + 16 * kPage) - 4,
        };
        return chance.one_of(all);
    }

private:
    static constexpr std::size_t kPages = 18;
    static void *map(std::size_t size, int protection)
    {
        return mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    std::uint8_t *base_;
    std::size_t next_ = 0;
};

struct State {
    Chance &chance;
    unsigned copies;
    MutatorCounts counts;
    Places places;
};
thread_local State *state;

/// An address of this process? Where something is mapped there; under User Mode Linux addresses
/// are no larger than other values. The highest byte may be a tag on arm64.
bool is_pointer(std::uint64_t value)
{
    std::uint64_t page = value & ~std::uint64_t{kPage - 1};
    return page && value >> 56 == 0 && msync(reinterpret_cast<void *>(page), 1, MS_ASYNC) == 0;
}

/// One word of what is sent: a pointer stays one that does no harm here.
void mutate_bytes(State &s, std::uint8_t *bytes, std::size_t size)
{
    if (size < 4)
        return;
    std::size_t at = s.chance.below(size / 4) * 4;
    std::size_t aligned = at & ~std::size_t{7};
    if (aligned + 8 <= size) {
        std::uint64_t word;
        std::memcpy(&word, bytes + aligned, 8);
        if (is_pointer(word)) {
            word = s.places.wrong(s.chance);
            std::memcpy(bytes + aligned, &word, 8);
            return;
        }
    }
    std::uint32_t word;
    std::memcpy(&word, bytes + at, 4);
    word = s.chance.once_in(3) ? static_cast<std::uint32_t>(s.chance.below(64))
                               : s.chance.wrong(word);
    std::memcpy(bytes + at, &word, 4);
}

void count(State &s, long result)
{
    s.counts.mutated++;
    if (result >= 0)
        s.counts.accepted++;
    else
        s.counts.refused[errno]++;
}

// ---- ioctl ----

using Bytes = std::vector<std::uint8_t>;

ib_uverbs_attr *attributes(Bytes &command)
{
    return reinterpret_cast<ib_uverbs_attr *>(command.data() + sizeof(ib_uverbs_ioctl_hdr));
}

/// The command with all that it points to in places of ours.
Bytes copy_of(State &s, const ib_uverbs_ioctl_hdr &header)
{
    auto *from = reinterpret_cast<const std::uint8_t *>(&header);
    Bytes copy(from, from + header.length);
    copy.resize(header.length + 4 * sizeof(ib_uverbs_attr));
    for (unsigned i = 0; i < header.num_attrs; i++) {
        ib_uverbs_attr &attr = attributes(copy)[i];
        /* What is so short may also be a value that looks like an address, or be for the answer. */
        if (attr.len <= 8 && is_pointer(attr.data))
            attr.data = s.places.room();
        else if (is_pointer(attr.data))
            attr.data = reinterpret_cast<std::uintptr_t>(
                s.places.copy_of(reinterpret_cast<const void *>(attr.data), attr.len));
    }
    return copy;
}

void mutate_attribute(State &s, ib_uverbs_attr &attr)
{
    switch (s.chance.below(8)) {
    case 0:
        attr.attr_id = s.chance.once_in(2) ? static_cast<std::uint16_t>(s.chance.below(20))
                                           : s.chance.wrong(attr.attr_id);
        break;
    case 1: attr.len = s.chance.wrong(attr.len); break;
    case 2: attr.flags = s.chance.wrong(attr.flags); break;
    case 3: attr.attr_data.reserved = s.chance.wrong(attr.attr_data.reserved); break;
    default:
        if (s.places.is_copy(attr.data) && !s.chance.once_in(4))
            mutate_bytes(s, reinterpret_cast<std::uint8_t *>(attr.data),
                         std::min<std::size_t>(attr.len, 1024));
        else if (is_pointer(attr.data))
            attr.data = s.places.wrong(s.chance);
        else
            attr.data = s.chance.once_in(2) ? s.chance.below(64)
                                            : s.chance.wrong(std::uint64_t{attr.data});
    }
}

void mutate_header(State &s, ib_uverbs_ioctl_hdr &header)
{
    switch (s.chance.below(7)) {
    case 0: header.length = s.chance.wrong(header.length); break;
    case 1: header.object_id = static_cast<std::uint16_t>(s.chance.below(24)); break;
    case 2: header.method_id = static_cast<std::uint16_t>(s.chance.below(12)); break;
    case 3: header.num_attrs = s.chance.wrong(header.num_attrs); break;
    case 4: header.driver_id = s.chance.wrong(header.driver_id); break;
    case 5: header.reserved1 = s.chance.wrong(std::uint64_t{header.reserved1}); break;
    default: header.reserved2 = s.chance.wrong(header.reserved2);
    }
}

/// One attribute twice, or one less.
void mutate_list(State &s, Bytes &copy)
{
    auto &header = *reinterpret_cast<ib_uverbs_ioctl_hdr *>(copy.data());
    ib_uverbs_attr *attrs = attributes(copy);
    if (s.chance.once_in(2)) {
        attrs[header.num_attrs] = attrs[s.chance.below(header.num_attrs)];
        if (s.chance.once_in(2))
            attrs[header.num_attrs].attr_id = static_cast<std::uint16_t>(s.chance.below(16));
        header.num_attrs++;
    } else {
        attrs[s.chance.below(header.num_attrs)] = attrs[header.num_attrs - 1];
        header.num_attrs--;
    }
    header.length = static_cast<std::uint16_t>(sizeof(header) +
                                               header.num_attrs * sizeof(ib_uverbs_attr));
}

void try_ioctl(State &s, int fd, const ib_uverbs_ioctl_hdr &original)
{
    Bytes copy = copy_of(s, original);
    auto &header = *reinterpret_cast<ib_uverbs_ioctl_hdr *>(copy.data());
    if (original.num_attrs && s.chance.once_in(6))
        mutate_list(s, copy);
    for (std::uint64_t n = 1 + s.chance.below(2); n; n--) {
        if (header.num_attrs && header.num_attrs <= original.num_attrs + 1 && !s.chance.once_in(6))
            mutate_attribute(s, attributes(copy)[s.chance.below(header.num_attrs)]);
        else
            mutate_header(s, header);
    }
    count(s, syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, copy.data()));
}

// ---- write ----

/// Wrong numbers of words, commands and all that follows.
void try_write(State &s, int fd, Bytes copy)
{
    for (std::size_t at = 8; at + 8 <= copy.size(); at += 8) {
        std::uint64_t word;
        std::memcpy(&word, copy.data() + at, 8);
        if (!is_pointer(word))
            continue;
        word = s.places.room();
        std::memcpy(copy.data() + at, &word, 8);
    }
    auto &header = *reinterpret_cast<ib_uverbs_cmd_hdr *>(copy.data());
    switch (s.chance.below(6)) {
    case 0:
        header.command = s.chance.once_in(2) ? static_cast<std::uint32_t>(s.chance.below(64))
                                             : s.chance.wrong(header.command);
        break;
    case 1: header.in_words = s.chance.wrong(header.in_words); break;
    case 2: header.out_words = s.chance.wrong(header.out_words); break;
    default: mutate_bytes(s, copy.data() + 8, copy.size() - 8);
    }
    std::size_t size = s.chance.once_in(8) ? s.chance.below(copy.size() + 1) : copy.size();
    count(s, syscall(SYS_write, fd, copy.data(), size));
}

/// An old command in the form that it has in an ioctl, as a write.
void try_as_write(State &s, int fd, const ib_uverbs_ioctl_hdr &original)
{
    const ib_uverbs_attr *attrs = original.attrs;
    Bytes in(8);
    std::uint64_t number = 0, out = 0;
    std::size_t core = 0;
    for (unsigned i = 0; i < original.num_attrs; i++) {
        const ib_uverbs_attr &attr = attrs[i];
        auto *from = attr.len > 8 ? reinterpret_cast<const std::uint8_t *>(attr.data)
                                  : reinterpret_cast<const std::uint8_t *>(&attr.data);
        if (attr.attr_id == UVERBS_ATTR_WRITE_CMD)
            number = attr.data;
        else if (attr.attr_id == UVERBS_ATTR_CORE_OUT || attr.attr_id == UVERBS_ATTR_UHW_OUT)
            out += attr.len;
        else if (attr.attr_id == UVERBS_ATTR_CORE_IN || attr.attr_id == UVERBS_ATTR_UHW_IN)
            in.insert(in.end(), from, from + attr.len);
        if (attr.attr_id == UVERBS_ATTR_CORE_IN)
            core = attr.len;
    }
    if (!core || number & IB_USER_VERBS_CMD_FLAG_EXTENDED)
        return;
    in.resize((in.size() + 3) & ~std::size_t{3});
    ib_uverbs_cmd_hdr header{static_cast<__u32>(number), static_cast<__u16>(in.size() / 4),
                             static_cast<__u16>(out / 4)};
    std::memcpy(in.data(), &header, sizeof(header));
    if (out && core >= 8) {
        std::uint64_t response = s.places.room();
        std::memcpy(in.data() + 8, &response, sizeof(response));
    }
    try_write(s, fd, in);
}

} // namespace

void mutate_commands(Chance &chance, unsigned copies)
{
    state = new State{chance, copies, {}, {}};
}

const MutatorCounts &commands_so_far()
{
    return state->counts;
}

MutatorCounts commands_as_they_are()
{
    MutatorCounts counts = state->counts;
    delete state;
    state = nullptr;
    return counts;
}

} // namespace hostile

using hostile::state;

/// libibverbs finds this one instead of libc's.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (state && request == RDMA_VERBS_IOCTL) {
        auto *header = static_cast<const ib_uverbs_ioctl_hdr *>(argument);
        state->counts.seen++;
        for (unsigned i = 0; i < state->copies; i++) {
            hostile::try_ioctl(*state, fd, *header);
            if (header->object_id == UVERBS_OBJECT_DEVICE &&
                header->method_id == UVERBS_METHOD_INVOKE_WRITE)
                hostile::try_as_write(*state, fd, *header);
        }
    }
    int result = static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
    if (result == 0 && request == RDMA_VERBS_IOCTL)
        hostile::note_answer(fd, *static_cast<const ib_uverbs_ioctl_hdr *>(argument));
    return result;
}

extern "C" ssize_t write(int fd, const void *buffer, size_t size)
{
    if (state && fd > 2 && size >= 16 && size <= 1024) {
        auto *from = static_cast<const std::uint8_t *>(buffer);
        state->counts.seen++;
        for (unsigned i = 0; i < state->copies; i++)
            hostile::try_write(*state, fd, {from, from + size});
    }
    return syscall(SYS_write, fd, buffer, size);
}
