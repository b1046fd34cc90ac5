"""Runs the tests of one module of mpi4py on every rank, and writes what comes of each.

each.py MODULE FOLDER [TEST...]: rank r writes into FOLDER/r, a line at once: `begin NAME`, then `ok NAME`, `skip NAME WHY` or
`fail NAME WHY`, and `end` when all are done. The tests named are left out.
"""

import pathlib
import sys
import unittest

from mpi4py import MPI

name, folder, *without = sys.argv[1:]
out = (pathlib.Path(folder) / str(MPI.COMM_WORLD.Get_rank())).open("w", buffering=1)


class Lines(unittest.TestResult):
    def say(self, what, test, why=""):
        words = str(why).split()
        print(what, test.id(), *words[:40], file=out)

    def startTest(self, test):
        super().startTest(test)
        self.say("begin", test)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        self.say("skip", test, reason)

    def addFailure(self, test, error):
        self.say("fail", test, f"{error[0].__name__}: {error[1]}")

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def tests(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests(one)
        elif one.id() not in without:
            yield one


every = unittest.defaultTestLoader.loadTestsFromName(name)
unittest.TestSuite(tests(every)).run(Lines())
print("end", file=out)
