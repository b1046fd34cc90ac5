//! Calls of `aldis-coll` begun at once or made to be started later, as the program asks.

use aldis_coll::inter::InterCall;
use aldis_coll::neighbor::NeighborList;
use aldis_coll::{BlockCall, Collective, ContiguousCall, NeighborCall};
use aldis_kernel::{Comm, Error};

use crate::process::scope::StaticScope;

/// The way in which a collective is begun that takes more than a blocking call of the kernel.
#[derive(Clone, Copy)]
pub(super) enum Beginning {
    /// At once, as a nonblocking one.
    Now,
    /// At once, and every rank waits for it.
    Waited,
    /// When its request is started.
    Later,
}

/// A call that can be begun on a communicator, or among neighbours.
pub(super) trait Begin<On> {
    /// Begins it.
    fn begin(
        self,
        beginning: Beginning,
        scope: &mut StaticScope,
        on: On,
    ) -> Result<Collective<'static>, Error>;
}

impl Begin<&Comm> for ContiguousCall<'static> {
    #[inline]
    fn begin(
        self,
        beginning: Beginning,
        scope: &mut StaticScope,
        comm: &Comm,
    ) -> Result<Collective<'static>, Error> {
        match beginning {
            Beginning::Now => self.start(scope, comm),
            Beginning::Waited => self.waited().start(scope, comm),
            Beginning::Later => self.persistent(scope, comm),
        }
    }
}

impl Begin<&Comm> for BlockCall<'static> {
    #[inline]
    fn begin(
        self,
        beginning: Beginning,
        scope: &mut StaticScope,
        comm: &Comm,
    ) -> Result<Collective<'static>, Error> {
        match beginning {
            Beginning::Now => self.start(scope, comm),
            Beginning::Waited => self.waited().start(scope, comm),
            Beginning::Later => self.persistent(scope, comm),
        }
    }
}

impl Begin<&Comm> for InterCall<'static> {
    #[inline]
    fn begin(
        self,
        beginning: Beginning,
        scope: &mut StaticScope,
        inter: &Comm,
    ) -> Result<Collective<'static>, Error> {
        match beginning {
            Beginning::Now | Beginning::Waited => self.start(scope, inter),
            Beginning::Later => self.persistent(scope, inter),
        }
    }
}

impl Begin<&'static NeighborList<'static>> for NeighborCall<'static> {
    #[inline]
    fn begin(
        self,
        beginning: Beginning,
        scope: &mut StaticScope,
        around: &'static NeighborList<'static>,
    ) -> Result<Collective<'static>, Error> {
        match beginning {
            Beginning::Now | Beginning::Waited => self.start(scope, around),
            Beginning::Later => self.persistent(scope, around),
        }
    }
}
