//! The jobs whose calls fail: each example, over what it can run on, in a size that takes a
//! fraction of a second.

/// A job.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Options of `aldis-run`; none for a program that is no job.
    pub(super) options: &'static [&'static str],
    /// The example and its arguments; in C, the file in `host-sim/mpi/programs`.
    pub(super) program: &'static [&'static str],
}

const fn scenario(
    name: &'static str,
    options: &'static [&'static str],
    program: &'static [&'static str],
) -> Scenario {
    Scenario { name, options, program }
}

const SHM: &[&str] = &["-n", "2", "--transport", "shm"];
const SHM_3: &[&str] = &["-n", "3", "--transport", "shm"];
const ARENA: &[&str] = &["-n", "2", "--transport", "shm", "--arena", "1M"];
const TCP: &[&str] = &["-n", "2", "--transport", "tcp"];
const TCP_3: &[&str] = &["-n", "3", "--transport", "tcp"];
const HOSTS: &[&str] = &["-n", "2", "--host", "local:a,local:b"];
const HOSTS_TCP: &[&str] = &["-n", "3", "--transport", "tcp", "--host", "local:a,local:b"];

impl Scenario {
    /// The file of a program in C.
    pub(super) fn in_c(&self) -> Option<&'static str> {
        self.program.first().copied().filter(|program| program.ends_with(".c"))
    }
}

/// Each example stands here at least once, and some programs over the interface of MPI; each
/// verifies what it has received, or its result.
pub(super) const SCENARIOS: [Scenario; 26] = [
    scenario("ring-shm", SHM, &["ring", "--laps", "50"]),
    // Above 4 MiB a shared copy is offered more than once.
    scenario("ring-shm-long", SHM, &["ring", "--laps", "3", "--words", "600000"]),
    scenario("ring-arena", ARENA, &["ring", "--laps", "20", "--words", "20000"]),
    scenario("ring-tcp", TCP_3, &["ring", "--laps", "50"]),
    scenario("ring-tcp-long", TCP, &["ring", "--laps", "3", "--words", "100000"]),
    scenario("ring-hosts", HOSTS, &["ring", "--laps", "50"]),
    scenario("heat-shm", SHM_3, &["heat", "--steps", "20"]),
    scenario("heat-tcp", TCP_3, &["heat", "--steps", "20"]),
    scenario("heat-hosts", HOSTS_TCP, &["heat", "--steps", "20"]),
    scenario("allreduce", SHM, &["allreduce", "--calls", "2", "--max-bytes", "65536"]),
    scenario("allreduce-tcp", TCP, &["allreduce", "--calls", "2", "--max-bytes", "65536"]),
    scenario("arena", ARENA, &["arena", "--rounds", "5"]),
    scenario("cores", &[], &["cores", "--rounds", "50", "--cores", "2"]),
    scenario("coupled", SHM_3, &["coupled", "--steps", "10"]),
    scenario("errors", SHM, &["errors"]),
    scenario("farm", TCP_3, &["farm", "--tasks", "100"]),
    scenario("flood", SHM, &["flood", "--messages", "100"]),
    scenario("kmeans", SHM_3, &["kmeans", "--points", "500", "--steps", "5"]),
    scenario("life", SHM, &["life", "--generations", "10"]),
    scenario("pingpong", SHM, &["pingpong", "--millis", "5", "--max-bytes", "65536"]),
    scenario("samplesort", TCP_3, &["samplesort", "--numbers", "2000"]),
    scenario("stencil", SHM_3, &["stencil", "--steps", "10"]),
    scenario("c-requests", SHM, &["requests.c"]),
    scenario("c-basics", SHM_3, &["basics.c"]),
    scenario("c-basics-tcp", TCP, &["basics.c"]),
    scenario("transpose", TCP, &["transpose", "--rows", "64", "--rounds", "2"]),
];
