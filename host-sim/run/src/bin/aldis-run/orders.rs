//! Orders to the nodes of a job, made of its options.

use core::time::Duration;

use aldis_linux::tcp::KEY_BYTES;
use aldis_linux::wireup::TcpTerms;
use aldis_run::hosts::{HostPlace, Share};
use aldis_run::options::{Bind, Options, Output, TransportName};

use crate::messages::{Binding, Input, NodeOrder};
use crate::remote::{self, AgentCommands};

/// Returns the way in which agents are started.
pub(crate) fn ways(options: &Options) -> Result<AgentCommands, String> {
    let agent = options.agent.clone().map_or_else(remote::own_program, Ok)?;
    let silence_ms = u32::try_from(options.host_timeout.as_millis()).unwrap_or(u32::MAX);
    let (shell, farewell_ms) = (options.ssh.clone(), remote::FAREWELL_MS);
    Ok(AgentCommands { shell, agent, farewell_ms, silence_ms })
}

/// A job, as its ranks tell it from others.
#[derive(Clone, Copy)]
pub(crate) struct JobIdentity {
    pub(crate) number: u64,
    /// The key of connections, if there are any.
    pub(crate) key: Option<[u8; KEY_BYTES]>,
}

/// Returns the order of the host of this share, with so long left for the ranks to join.
pub(crate) fn order(options: &Options, job: JobIdentity, share: &Share, left: Duration) -> NodeOrder {
    let here = share.place == HostPlace::Here;
    let own = || aldis_sys::process::current_dir().ok().filter(|_| !here);
    NodeOrder {
        job: job.number,
        size: options.plan.ranks,
        first: share.first,
        ranks: share.ranks,
        per_node: 0,
        shares_memory: !matches!(
            options.meant_transport(),
            TransportName::Tcp | TransportName::Verbs | TransportName::Ethernet
        ),
        arena_bytes: options.arena as u64,
        join_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
        binding: match options.bind {
            Bind::Auto => Binding::Share,
            Bind::Core => Binding::Core,
            Bind::None => Binding::Free,
        },
        pipes: options.output != Output::Plain || !here,
        input: if here { Input::Inherited } else { Input::Empty },
        programs: options.programs(),
        folder: own().map(Into::into),
        tcp: job.key.map(|key| Box::new(TcpTerms { key, config: options.tcp.config() })),
    }
}
