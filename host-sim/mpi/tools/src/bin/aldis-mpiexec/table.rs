//! The options that there are, by their names in other launchers, and their meanings here.

use crate::values::{self, ValueCheck};

/// The meaning of an option.
#[derive(Clone, Copy)]
pub(crate) enum Means {
    /// The ranks of a program.
    Ranks,
    /// The numbers of ranks that a program may have, of which the largest is taken.
    Soft,
    /// The ranks that each host takes.
    PerHost,
    /// The order in which ranks are given to hosts.
    Order,
    /// A file of programs with their options, one a line.
    Programs,
    /// Variables of this environment, with commas between them, for all ranks or those of one
    /// program.
    Variables(&'static str),
    /// A variable for all ranks: by its name alone as it is here, if it is.
    Exported,
    /// Hosts, after those that are named already.
    Hosts,
    /// An option of the whole job with one value.
    Job(&'static str, ValueCheck),
    /// An option of the whole job, with its value if it has one.
    Set(&'static str, Option<&'static str>),
    /// The folder of a program.
    Folder,
    /// The error handler that a program's ranks begin with.
    ErrorHandler,
    /// A variable for all ranks, in one word or two.
    Variable,
    /// A variable for the ranks of one program, in one word or two.
    OwnVariable,
    /// The usual behaviour of `aldis-run`.
    Usual,
    /// A value that has to be the usual behaviour of `aldis-run`.
    UsualIf(ValueCheck),
    /// The pinning of ranks.
    Bind,
    /// The way in which processes are started on hosts.
    Launcher,
    /// A parameter of another implementation's, in two words, without an equivalent; what to do
    /// instead.
    Parameter(&'static str),
    /// An option without an equivalent; what to do instead.
    Nothing(&'static str),
}

/// The remedy for orders of ranks that there are none of.
pub(crate) const PLACES: &str = "--host a:2,b:2 says how many ranks each host has, in order";
const TRANSPORTS: &str = "--transport and the variables of docs/environment.md say how messages travel";
const CORES: &str =
    "`-l grep Cpus_allowed_list /proc/self/status` instead of the program shows each rank's cores";
const RANK_HOSTS: &str = "`-l hostname` instead of the program shows the host of each rank";
const INPUT: &str = "rank 0 reads the launcher's input, and the others read nothing";
const FILES: &str = "-l puts each rank in front of its lines";
const MASK: &str = "taskset in front of aldis-mpiexec chooses the cores that ranks share";

/// Each option by its names behind one dash or two.
pub(crate) const OPTIONS: [(&[&str], Means); 46] = [
    (&["n", "np", "c"], Means::Ranks),
    (&["soft"], Means::Soft),
    (&["host", "hosts", "H"], Means::Hosts),
    (&["hostfile", "f", "machinefile"], Means::Job("--hostfile", values::host_file)),
    (&["timeout"], Means::Job("--timeout", values::seconds)),
    (&["transport"], Means::Job("--transport", values::transport)),
    (&["x"], Means::Exported),
    (&["genv"], Means::Variable),
    (&["env"], Means::OwnVariable),
    (&["wdir", "wd"], Means::Folder),
    (&["initial-errhandler"], Means::ErrorHandler),
    (&["bind-to", "binding"], Means::Bind),
    (&["bind-to-core"], Means::Set("--bind", Some("core"))),
    (&["bind-to-none"], Means::Set("--bind", Some("none"))),
    (&["l", "prepend-rank", "tag-output"], Means::Set("--output", Some("prefix"))),
    (&["q", "quiet"], Means::Set("--quiet", None)),
    (&["oversubscribe", "allow-run-as-root", "genvall", "envall", "use-hwthread-cpus"], Means::Usual),
    (&["ppn", "perhost", "N", "npernode"], Means::PerHost),
    (&["map-by", "rank-by"], Means::Order),
    (&["genvlist"], Means::Variables("--genv")),
    (&["envlist"], Means::Variables("--env")),
    (&["configfile", "app"], Means::Programs),
    (&["iface"], Means::Job("--tcp-include", values::any)),
    (&["launcher", "bootstrap"], Means::Launcher),
    (&["launcher-exec", "bootstrap-exec"], Means::Job("--ssh", values::command)),
    (&["arch"], Means::UsualIf(values::architecture)),
    (&["memory-alloc-kinds"], Means::UsualIf(values::memory_kinds)),
    (&["ranks-per-proc", "rankfile", "rf", "rr", "grr"], Means::Nothing(PLACES)),
    (
        &["nooversubscribe", "no-oversubscribe"],
        Means::Nothing("--host a:2,b:2 lets each host have so many ranks and no more"),
    ),
    (&["mca", "gmca", "prtemca", "pmixmca"], Means::Parameter(TRANSPORTS)),
    (&["genvnone", "envnone"], Means::Nothing("env -i in front of the program empties its environment")),
    (&["output-filename", "outfile-pattern", "errfile-pattern", "output"], Means::Nothing(FILES)),
    (&["timestamp-output"], Means::Nothing("-l puts each rank in front of its lines, and `ts` a time")),
    (&["merge-stderr-to-stdout"], Means::Nothing("2>&1 behind the command line joins the two")),
    (&["stdin", "s"], Means::Nothing(INPUT)),
    (&["rmk"], Means::Nothing("-f FILE or -hosts names the hosts")),
    (&["prefix", "path"], Means::Nothing("give the program's path")),
    (&["file"], Means::Nothing("-configfile FILE reads programs with their options from a file")),
    (&["report-bindings"], Means::Nothing(CORES)),
    (&["print-rank-map", "display-map", "display-allocation", "display"], Means::Nothing(RANK_HOSTS)),
    (&["cpu-set", "cpu-list"], Means::Nothing(MASK)),
    (
        &["cpus-per-rank", "cpus-per-proc"],
        Means::Nothing("without -bind-to each rank has its share of the host's cores"),
    ),
    (&["v", "verbose", "d"], Means::Nothing("aldis-run --json closes with a report of every rank")),
    (
        &["disable-auto-cleanup"],
        Means::Nothing("a rank that dies ends its job, always: no rank can go on without it"),
    ),
    (&["enable-auto-cleanup"], Means::Usual),
    (&["info"], Means::Nothing("-version says which version this is")),
];
