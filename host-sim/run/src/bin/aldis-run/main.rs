//! `aldis-run`: starts the ranks of a job, on this machine and on others, brings them together, and
//! ends them together.
//!
//! Read top-down: [`options`] are what the user types, [`programs`] what ranks run, and [`orders`]
//! what nodes are told of it; [`supervise`] waits for whatever happens next and decides, [`report`]
//! says it, [`relay`] shows what the ranks print. It exchanges [`messages`] with the nodes of a
//! job: to its own directly, to others through a [`branch`], [`remote`] and [`link`] with an
//! [`agent`], which is this program again, and through other agents in a [`tree`] where hosts are
//! many ([`job_hosts`]), and each two that are linked keep watch over each other by a
//! [`heartbeat`]; [`host`] makes no difference between them. A [`node`] makes segments and,
//! in [`spawn`], processes; [`rank`] is one of them, [`wire`] exchanges messages with it until it
//! knows its peers, [`pipes`] take what it prints, [`rank_state`] is what is known of it. One
//! thread, one `poll(2)`.

mod agent;
mod branch;
mod cores;
mod error;
mod heartbeat;
mod host;
mod host_fault;
mod job_hosts;
mod link;
mod member;
mod messages;
mod node;
mod orders;
mod pipes;
mod progress;
mod rank;
mod rank_state;
mod relay;
mod remote;
mod report;
mod signals;
mod spawn;
mod supervise;
mod tree;
mod wire;

use core::time::Duration;
use std::io::{Write, stderr};
use std::process::ExitCode;

use aldis_coll::catalog::Catalog;
use aldis_linux::coll_rules::Question;
use aldis_linux::output::{self, Lost};
use aldis_run::{command_line, options, programs};
use aldis_sys::fault::act_as;
use aldis_sys::plan::PlannedProcess;
use clap::{CommandFactory, FromArgMatches};

fn main() -> ExitCode {
    let is_agent = std::env::args_os().nth(1).is_some_and(|word| word == remote::AGENT);
    act_as(if is_agent { PlannedProcess::Agent } else { PlannedProcess::Launcher });
    let ended = if is_agent {
        // Without a number, as when one is started by hand, nothing is ever taken for hung.
        let silence = std::env::args().nth(2).and_then(|ms| ms.parse().ok()).unwrap_or_default();
        agent::run(Duration::from_millis(silence))
    } else {
        let mut parts = programs::split(std::env::args_os()).into_iter();
        let first = parts.next().unwrap_or_default();
        let matches = match command_line::matches(options::Options::command(), first) {
            Ok(matches) => matches,
            Err(code) => return code,
        };
        if matches.get_flag(options::LIST_ALGORITHMS) {
            return said(output::print(format_args!("{Catalog}\n")));
        }
        if let Some(question) = matches.get_one::<Question>(options::EXPLAIN_COLLECTIVE) {
            let answer = question.answer(matches.get_one(options::COLL_RULES));
            return said(output::print(format_args!("{answer}\n")));
        }
        let read = options::Options::from_arg_matches(&matches);
        let mut options = read.unwrap_or_else(|error| error.exit());
        let others: Result<_, _> = parts.map(command_line::parse_from).collect();
        match others {
            Ok(others) => options.take(others),
            Err(code) => return code,
        }
        options.check();
        supervise::run(&options)
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // No output is left to report to where this fails.
            let _ = writeln!(stderr(), "{}: {error}", command_line::own_name());
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a question that was answered.
fn said(answer: Result<(), Lost>) -> ExitCode {
    answer.map_or_else(|lost| output::failed(command_line::own_name(), &lost), |()| ExitCode::SUCCESS)
}
