//! This module holds `unsafe` code: memory of the library is lent to the kernel.
//!
//! The messages by which `aldis-coll` makes communicators while other things go on, posted at the
//! endpoint of the process.

use core::cell::{RefCell, RefMut};
use core::future::poll_fn;
use core::task::Poll;

use aldis_coll::comm::{MessagePair, Messenger, NOTICE_BYTES};
use aldis_hal::Cause;
use aldis_kernel::{Comm, Error, Rank, Request, Status, Tag};
use aldis_linux::platform::HostPlatform;
use aldis_linux::{HostEndpoint, HostTransport};

use crate::fault::CallFault;
use crate::ffi::extend_mut;
use crate::process::engine::{self, ProcessEngine};

/// The process's endpoint, for futures.
pub(crate) struct Poster(&'static RefCell<ProcessEngine>);

pub(crate) fn poster() -> Result<Poster, CallFault> {
    engine::cell().map(Poster)
}

impl Messenger<'static, HostTransport, HostPlatform> for Poster {
    type Guard<'g> = RefMut<'g, HostEndpoint>;

    fn endpoint<'g>(&'g mut self) -> RefMut<'g, HostEndpoint>
    where
        'static: 'g,
    {
        RefMut::map(self.0.borrow_mut(), ProcessEngine::endpoint)
    }

    async fn exchange(
        &mut self,
        exchange: &MessagePair,
        mine: &[u8],
        theirs: &mut [u8],
        refused: &mut [u8; NOTICE_BYTES],
    ) -> Result<Status, Error> {
        let mut posted = Posted::new(self.0, exchange, mine, theirs.len())?;
        let result = poll_fn(|_| posted.go_on()).await;
        // What is under way still is left alone.
        if posted.receiving.is_none() {
            theirs.copy_from_slice(&posted.theirs);
        }
        if posted.refusal.is_none() {
            refused.copy_from_slice(&posted.refused);
        }
        result
    }

    fn notify(&mut self, comm: &Comm, notice: [u8; NOTICE_BYTES], ranks: [(Rank, Tag); 2]) {
        let mut engine = self.0.borrow_mut();
        for (rank, tag) in ranks {
            let mut notice = notice.to_vec();
            // A rank that is dead need not be told.
            // SAFETY: it is kept with the request, which is let go of first.
            let lent = unsafe { extend_mut(&mut notice) };
            if let Ok(request) = engine.scope.isend(comm, lent, rank, tag) {
                engine.freed.push(request);
                engine.memory_of_freed.push(notice);
            }
        }
    }
}

/// An exchange under way, in memory of its own.
struct Posted {
    engine: &'static RefCell<ProcessEngine>,
    exchange: MessagePair,
    receiving: Option<Request<'static>>,
    sending: Option<Request<'static>>,
    refusal: Option<Request<'static>>,
    received: Option<Status>,
    mine: Vec<u8>,
    theirs: Vec<u8>,
    refused: Vec<u8>,
}

impl Posted {
    fn new(
        engine: &'static RefCell<ProcessEngine>,
        exchange: &MessagePair,
        mine: &[u8],
        room: usize,
    ) -> Result<Self, Error> {
        let mut posted = Self {
            engine,
            exchange: *exchange,
            receiving: None,
            sending: None,
            refusal: None,
            received: None,
            mine: mine.to_vec(),
            theirs: vec![0; room],
            refused: vec![0; NOTICE_BYTES],
        };
        let &MessagePair { comm, tag, to, from, .. } = exchange;
        let scope = &mut engine.borrow_mut().scope;
        // SAFETY: `drop` keeps them until what is under way has let go; they are touched when all
        // is over.
        let (theirs, mine) = unsafe { (extend_mut(&mut posted.theirs), extend_mut(&mut posted.mine)) };
        posted.receiving = Some(scope.irecv(&comm, theirs, from, tag)?);
        posted.sending = Some(scope.isend(&comm, mine, to, tag)?);
        Ok(posted)
    }

    fn go_on(&mut self) -> Poll<Result<Status, Error>> {
        match self.advance() {
            Ok(None) => Poll::Pending,
            Ok(Some(status)) => Poll::Ready(Ok(status)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// The status of what was received, once all is done.
    fn advance(&mut self) -> Result<Option<Status>, Error> {
        let scope = &mut self.engine.borrow_mut().scope;
        if let Some(receiving) = &mut self.receiving {
            let Some(status) = scope.result(receiving)? else { return Ok(None) };
            (self.received, self.receiving) = (Some(status), None);
        }
        if let Some(sending) = &mut self.sending {
            if scope.result(sending)?.is_some() {
                self.sending = None;
                return Ok(self.received);
            }
            let MessagePair { comm, to, refusal, operation, .. } = self.exchange;
            match &mut self.refusal {
                // It must be matched first: perhaps it never will.
                None => {
                    // SAFETY: as for the other two.
                    let refused = unsafe { extend_mut(&mut self.refused) };
                    self.refusal = Some(scope.irecv(&comm, refused, to, refusal)?);
                }
                Some(refused) => {
                    if scope.result(refused)?.is_some() {
                        self.refusal = None;
                        return Err(Error::new(operation, Cause::Declined));
                    }
                }
            }
            return Ok(None);
        }
        Ok(self.received)
    }
}

impl Drop for Posted {
    /// Gives up what is still under way; its memory stays until it has let go.
    fn drop(&mut self) {
        let mut engine = self.engine.borrow_mut();
        let left = [&mut self.receiving, &mut self.sending, &mut self.refusal];
        for mut request in left.into_iter().filter_map(Option::take) {
            engine.scope.cancel(&mut request);
            engine.freed.push(request);
        }
        engine
            .memory_of_freed
            .extend([&mut self.mine, &mut self.theirs, &mut self.refused].map(core::mem::take));
    }
}
