/* Topologies and collectives among neighbours, blocking, nonblocking and persistent, checked on every rank. The last line of a good run
   is "ok". */
#include <mpi.h>
#include <stdio.h>

#include "check.h"

/* A line of all ranks that is open at both ends. */
static void line(void) {
    int dims[1] = {0}, periods[1] = {0}, coords[1], kind, count, found, before, behind, class;
    MPI_Comm comm, copy;
    MPI_Dims_create(size, 1, dims);
    CHECK(dims[0] == size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    MPI_Topo_test(comm, &kind);
    CHECK(kind == MPI_CART);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_free(&comm);
    MPI_Cartdim_get(copy, &count);
    CHECK(count == 1);
    MPI_Cart_coords(copy, rank, 1, coords);
    CHECK(coords[0] == rank);
    MPI_Cart_rank(copy, coords, &found);
    CHECK(found == rank);
    MPI_Cart_shift(copy, 0, 1, &before, &behind);
    CHECK(before == (rank == 0 ? MPI_PROC_NULL : rank - 1) && behind == (rank == size - 1 ? MPI_PROC_NULL : rank + 1));
    /* Who is not there leaves its block as it was; a stride makes the blocks no single piece. */
    MPI_Datatype apart;
    MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &apart);
    MPI_Type_commit(&apart);
    int taken[2] = {-7, -7}, spread[6] = {-7, -7, -7, -7, -7, -7};
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, taken, 1, MPI_INT, copy);
    CHECK(taken[0] == (rank == 0 ? -7 : rank - 1) && taken[1] == (rank == size - 1 ? -7 : rank + 1));
    MPI_Request request;
    MPI_Ineighbor_allgather(&rank, 1, MPI_INT, spread, 1, apart, copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(spread[0] == taken[0] && spread[3] == taken[1] && spread[1] == -7 && spread[5] == -7);
    int given[2], sums[2];
    MPI_Neighbor_alltoall_init(given, 1, MPI_INT, sums, 1, MPI_INT, copy, MPI_INFO_NULL, &request);
    for (int round = 0; round < 3; round++) {
        given[0] = 10 * rank + round, given[1] = 1000 * rank + round, sums[0] = sums[1] = -1;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sums[0] == (rank == 0 ? -1 : 1000 * (rank - 1) + round));
        CHECK(sums[1] == (rank == size - 1 ? -1 : 10 * (rank + 1) + round));
    }
    MPI_Request_free(&request);
    MPI_Type_free(&apart);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Cart_shift(copy, 1, 1, &before, &behind), &class);
    CHECK(class == MPI_ERR_DIMS);
    MPI_Error_class(MPI_Graphdims_get(copy, &before, &behind), &class);
    CHECK(class == MPI_ERR_TOPOLOGY);
    MPI_Comm_free(&copy);
}

/* A grid of two dimensions, of which one is closed, and its rows. */
static void grid(void) {
    int dims[2] = {0, 1}, periods[2] = {1, 0}, got[2], closed[2], coords[2], keep[2] = {1, 0}, own, mapped;
    MPI_Comm comm, column;
    MPI_Dims_create(size, 2, dims);
    CHECK(dims[0] == size && dims[1] == 1);
    MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &mapped);
    CHECK(mapped == rank);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
    MPI_Cart_get(comm, 2, got, closed, coords);
    CHECK(got[0] == size && got[1] == 1 && closed[0] && !closed[1] && coords[0] == rank && coords[1] == 0);
    int beyond[2] = {rank + size, 0}, found;
    MPI_Cart_rank(comm, beyond, &found);
    CHECK(found == rank);
    MPI_Cart_sub(comm, keep, &column);
    MPI_Comm_size(column, &own);
    MPI_Cartdim_get(column, &found);
    CHECK(own == size && found == 1);
    int lens[2] = {1, 2}, starts[2] = {0, 1}, rooms[2] = {2, 1}, ends[2] = {0, 2}, given[3], taken[3];
    for (int i = 0; i < 3; i++) given[i] = 10 * rank + i, taken[i] = -1;
    MPI_Neighbor_alltoallv(given, lens, starts, MPI_INT, taken, rooms, ends, MPI_INT, column);
    int before = (rank + size - 1) % size, behind = (rank + 1) % size;
    CHECK(taken[0] == 10 * before + 1 && taken[1] == 10 * before + 2 && taken[2] == 10 * behind);
    MPI_Comm_free(&column);
    MPI_Comm_free(&comm);
    dims[0] = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
    CHECK((comm == MPI_COMM_NULL) == (rank > 0));
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

/* A star: rank 0 with all others. */
static void star(void) {
    int index[64], edges[128], nodes, count, neighbours[64], all[64];
    MPI_Comm comm;
    for (int i = 0; i < size; i++) index[i] = size - 1 + i;
    for (int i = 0; i < size - 1; i++) edges[i] = i + 1, edges[size - 1 + i] = 0;
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm);
    MPI_Graphdims_get(comm, &nodes, &count);
    CHECK(nodes == size && count == 2 * (size - 1));
    MPI_Graph_neighbors_count(comm, rank, &count);
    CHECK(count == (rank == 0 ? size - 1 : 1));
    MPI_Graph_neighbors(comm, rank, count, neighbours);
    for (int i = 0; i < count; i++) CHECK(neighbours[i] == (rank == 0 ? i + 1 : 0));
    MPI_Graph_get(comm, size, 2 * (size - 1), all, edges);
    for (int i = 0; i < size; i++) CHECK(all[i] == index[i]);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int i = 0; i < count; i++) CHECK(all[i] == neighbours[i]);
    MPI_Comm_free(&comm);
}

/* A ring in one direction, told of by each rank for itself, and by rank 0 for all. */
static void ring(void) {
    int before = (rank + size - 1) % size, behind = (rank + 1) % size, weight = rank + 1, in, out, weighted, one, from, to, heavy;
    MPI_Comm comm;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &behind, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && !weighted);
    MPI_Neighbor_alltoall(&rank, 1, MPI_INT, &one, 1, MPI_INT, comm);
    CHECK(one == before);
    MPI_Comm_free(&comm);
    int sources[64], degrees[64], destinations[64], weights[64], told = rank == 0 ? size : 0;
    for (int i = 0; i < size; i++) sources[i] = i, degrees[i] = 1, destinations[i] = (i + 1) % size, weights[i] = i + 1;
    MPI_Dist_graph_create(MPI_COMM_WORLD, told, sources, degrees, destinations, weights, MPI_INFO_NULL, 0, &comm);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && weighted);
    MPI_Dist_graph_neighbors(comm, 1, &from, &one, 1, &to, &heavy);
    CHECK(from == before && one == before + 1 && to == behind && heavy == weight);
    /* Three columns of a matrix of two rows to the right. */
    int matrix[6] = {rank, 1, 2, rank + 3, 4, 5}, lens[1] = {1}, taken[2] = {-1, -1}, rooms[1] = {2};
    MPI_Aint starts[1] = {0};
    MPI_Datatype column, kinds[1] = {MPI_INT};
    MPI_Type_vector(2, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Neighbor_alltoallw(matrix, lens, starts, &column, taken, rooms, starts, kinds, comm);
    CHECK(taken[0] == before && taken[1] == before + 3);
    MPI_Type_free(&column);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    line();
    grid();
    star();
    ring();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
