// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/**
 * @file
 * An MPI program that checks all of its data: messages of many sizes between all pairs of ranks,
 * collective operations, one-sided access to windows. Rank 0 prints "mpi_data: N ranks, M checks"
 * when everything was as it should be; any difference ends the job.
 *
 *   mpirun -np N mpi_data [two-sided]     two-sided: without windows
 */
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

int rank;
int ranks;
long checks;

/// Ends the job unless `good`.
void check(bool good, const char *what, long detail = 0)
{
    ++checks;
    if (good)
        return;
    std::fprintf(stderr, "mpi_data: rank %d: %s: wrong (%ld)\n", rank, what, detail);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/// The byte at `index` of what `from` sends to `to` with `tag`.
std::uint8_t byte_of(int from, int to, int tag, std::size_t index)
{
    const auto mixed = (index + 1) * 2654435761U + static_cast<std::size_t>(from) * 40503U +
                       static_cast<std::size_t>(to) * 977U + static_cast<std::size_t>(tag) * 31U;
    return static_cast<std::uint8_t>(mixed >> 16U);
}

std::vector<std::uint8_t> message(int from, int to, int tag, std::size_t size)
{
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = byte_of(from, to, tag, i);
    return bytes;
}

/// Every rank sends to every other at once, in every size; the receives are posted before.
void exchange(std::size_t size, int tag)
{
    std::vector<std::vector<std::uint8_t>> in;
    std::vector<std::vector<std::uint8_t>> out;
    std::vector<MPI_Request> requests;
    for (int peer = 0; peer < ranks; ++peer) {
        in.emplace_back(size);
        out.push_back(message(rank, peer, tag, size));
    }
    for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank)
            continue;
        MPI_Irecv(in[peer].data(), static_cast<int>(size), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                  &requests.emplace_back());
    }
    for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank)
            continue;
        MPI_Isend(out[peer].data(), static_cast<int>(size), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                  &requests.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < ranks; ++peer)
        check(peer == rank || in[peer] == message(peer, rank, tag, size), "exchange",
              static_cast<long>(size));
}

/// A ring of blocking messages, of which the receiver learns the size first.
void probed_ring()
{
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 20; ++round) {
        const std::size_t size = 1 + static_cast<std::size_t>(round) * round * 97;
        const auto out = message(rank, next, round, size);
        MPI_Request request;
        MPI_Issend(out.data(), static_cast<int>(size), MPI_BYTE, next, round, MPI_COMM_WORLD,
                   &request);
        MPI_Status status;
        MPI_Probe(previous, round, MPI_COMM_WORLD, &status);
        int count = 0;
        MPI_Get_count(&status, MPI_BYTE, &count);
        std::vector<std::uint8_t> in(static_cast<std::size_t>(count));
        MPI_Recv(in.data(), count, MPI_BYTE, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check(in == message(previous, rank, round, size), "probed ring", count);
    }
}

void collectives()
{
    constexpr int count = 50000;
    std::vector<std::int64_t> in(count);
    std::vector<std::int64_t> sum(count);
    for (int i = 0; i < count; ++i)
        in[i] = static_cast<std::int64_t>(i) * (rank + 1);
    MPI_Allreduce(in.data(), sum.data(), count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    const std::int64_t factor = static_cast<std::int64_t>(ranks) * (ranks + 1) / 2;
    for (int i = 0; i < count; ++i)
        check(sum[i] == i * factor, "allreduce", i);

    constexpr std::size_t block = 3000;
    std::vector<std::uint8_t> parts;
    for (int peer = 0; peer < ranks; ++peer) {
        const auto part = message(rank, peer, 7, block);
        parts.insert(parts.end(), part.begin(), part.end());
    }
    std::vector<std::uint8_t> all(block * ranks);
    MPI_Alltoall(parts.data(), block, MPI_BYTE, all.data(), block, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < ranks; ++peer) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(block) * peer;
        check(std::vector<std::uint8_t>(begin, begin + block) == message(peer, rank, 7, block),
              "alltoall", peer);
    }

    for (int root = 0; root < ranks; ++root) {
        auto bytes = message(root, root, 9, 100000);
        if (rank != root)
            bytes.assign(bytes.size(), 0);
        MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, MPI_COMM_WORLD);
        check(bytes == message(root, root, 9, bytes.size()), "bcast", root);
    }
}

/// Each rank owns one slot for each other rank in everyone's window.
void put_and_get(std::size_t size)
{
    const auto slot = static_cast<MPI_Aint>(size);
    std::uint8_t *base = nullptr;
    MPI_Win window;
    MPI_Win_allocate(slot * ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void *>(&base),
                     &window);
    MPI_Win_fence(0, window);
    std::vector<std::vector<std::uint8_t>> out;
    for (int peer = 0; peer < ranks; ++peer)
        out.push_back(message(rank, peer, 11, size));
    for (int peer = 0; peer < ranks; ++peer)
        MPI_Put(out[peer].data(), static_cast<int>(size), MPI_BYTE, peer, slot * rank,
                static_cast<int>(size), MPI_BYTE, window);
    MPI_Win_fence(0, window);
    for (int peer = 0; peer < ranks; ++peer) {
        const std::uint8_t *begin = base + slot * peer;
        check(std::vector<std::uint8_t>(begin, begin + size) == message(peer, rank, 11, size),
              "put", peer);
    }

    const int next = (rank + 1) % ranks;
    std::vector<std::uint8_t> in(size * ranks);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
    MPI_Get(in.data(), static_cast<int>(in.size()), MPI_BYTE, next, 0, static_cast<int>(in.size()),
            MPI_BYTE, window);
    MPI_Win_unlock(next, window);
    for (int peer = 0; peer < ranks; ++peer) {
        const auto begin = in.begin() + slot * peer;
        check(std::vector<std::uint8_t>(begin, begin + slot) == message(peer, next, 11, size),
              "get", peer);
    }
    MPI_Win_free(&window);
}

/// All ranks count up on rank 0: every value is handed out once, none is lost.
void atomics()
{
    constexpr int rounds = 25;
    std::int64_t *base = nullptr;
    MPI_Win window;
    MPI_Win_allocate(rank == 0 ? 2 * sizeof(std::int64_t) : 0, sizeof(std::int64_t), MPI_INFO_NULL,
                     MPI_COMM_WORLD, static_cast<void *>(&base), &window);
    if (rank == 0)
        base[0] = base[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    const std::int64_t one = 1;
    std::int64_t last = -1;
    std::int64_t total = 0;
    for (int i = 0; i < rounds; ++i) {
        std::int64_t before = -1;
        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        check(before > last && before < static_cast<std::int64_t>(rounds) * ranks, "fetch_and_op",
              before);
        last = before;
        total += before;
    }
    // A counter by compare and swap.
    for (int i = 0; i < rounds; ++i) {
        std::int64_t expected = 0;
        for (;;) {
            const std::int64_t desired = expected + 1;
            std::int64_t found = -1;
            MPI_Compare_and_swap(&desired, &expected, &found, MPI_INT64_T, 0, 1, window);
            MPI_Win_flush(0, window);
            if (found == expected)
                break;
            expected = found;
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    const std::int64_t all = static_cast<std::int64_t>(rounds) * ranks;
    std::int64_t sum = 0;
    MPI_Allreduce(&total, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    check(sum == all * (all - 1) / 2, "values of fetch_and_op", sum);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        check(base[0] == all, "counter of fetch_and_op", base[0]);
        check(base[1] == all, "counter of compare_and_swap", base[1]);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const bool windows = argc < 2 || std::strcmp(argv[1], "two-sided") != 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int tag = 100;
    for (const std::size_t size : {0UL, 1UL, 8UL, 100UL, 1000UL, 5000UL, 9000UL, 70000UL, 300000UL})
        exchange(size, tag++);
    for (int i = 0; i < 30; ++i)
        exchange(64, tag++);
    probed_ring();
    collectives();
    if (windows) {
        put_and_get(8);
        put_and_get(5000);
        put_and_get(200001);
        atomics();
    }
    std::int64_t sum = 0;
    const std::int64_t mine = checks;
    MPI_Reduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("mpi_data: %d ranks, %ld checks\n", ranks, static_cast<long>(sum));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
