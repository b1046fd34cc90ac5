"""Pi by the midpoint rule, every rank a part of it: aldis-mpiexec -n 4 python pi.py [intervals].

Takes mpi4py that was built for the standard binary interface (docs/mpi.md says how). Numbers go as NumPy arrays, whose memory is
sent as it is; what each rank did goes as objects.
"""

import math
import sys

import numpy
from mpi4py import MPI


def part(rank, size, intervals):
    """The sum over this rank's intervals."""
    places = (numpy.arange(rank, intervals, size) + 0.5) / intervals
    return numpy.sum(4.0 / (1.0 + places * places)) / intervals


def main():
    comm = MPI.COMM_WORLD
    intervals = numpy.array([int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000])
    comm.Bcast(intervals, root=0)
    own, pi = numpy.array([part(comm.rank, comm.size, intervals[0])]), numpy.zeros(1)
    comm.Allreduce(own, pi, op=MPI.SUM)
    done = comm.gather({"rank": comm.rank, "part": float(own[0])}, root=0)
    if comm.rank == 0:
        assert [each["rank"] for each in done] == list(range(comm.size))
        # The rule is off by a twelfth of the square of an interval, at most.
        is_off = abs(pi[0] - math.pi) > 1.0 / float(intervals[0]) ** 2 + 1e-12
        print(f"pi is {pi[0]:.12f}, by {comm.size} ranks, {intervals[0]} intervals")
        sys.exit(1 if is_off else 0)


if __name__ == "__main__":
    main()
