//! Jobs that Slurm starts: `srun --mpi=pmi2` on a cluster of this machine alone, which the test
//! starts and stops. It takes root, `slurm-wlm` and `munge`; where they are not, the test says that
//! it was skipped.

use core::time::Duration;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Ended, RANK, becomes, launch, program};
use crate::hydra::verified;

/// The daemons, in the order of their start.
const DAEMONS: [&str; 3] = ["munged", "slurmctld", "slurmd"];

/// The time that the cluster may take to run its first job.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A cluster of one node, with a folder, a key and ports of its own.
struct Cluster {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    /// `None` where there can be none, with the reason on standard error.
    fn start() -> Option<Self> {
        if fs::metadata("/proc/self").is_ok_and(|this| this.uid() != 0) {
            eprintln!("skipped: a Slurm cluster of one's own takes root");
            return None;
        }
        if let Some(missing) = DAEMONS.iter().chain(&["srun"]).find(|name| find(name).is_none()) {
            eprintln!("skipped: no {missing} here; apt-get install slurm-wlm munge");
            return None;
        }
        // Short, for its sockets, and readable for all on the way, as munge wants it.
        let folder = std::env::temp_dir().join(format!("aldis-slurm-{}", std::process::id()));
        let mut cluster = Self { folder, daemons: Vec::new() };
        cluster.set_up();
        cluster.start_all();
        Some(cluster)
    }

    fn set_up(&self) {
        let path = |name: &str| self.folder.join(name);
        fs::create_dir_all(path("state")).unwrap();
        fs::create_dir_all(path("spool")).unwrap();
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).unwrap();
        let key: Vec<u8> = (0..1024).map(|_| aldis_linux::entropy::distinct() as u8).collect();
        fs::write(path("munge.key"), key).unwrap();
        fs::set_permissions(path("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim_end().split('.').next().unwrap_or_default();
        // Free now, and not likely to be taken within the second.
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [control, node] = ports.map(|port| port.local_addr().unwrap().port());
        let folder = self.folder.display();
        let lines = format!(
            "ClusterName=aldis\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\nSlurmdPort={node}\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSlurmUser=root\nReturnToService=2\nMpiDefault=none\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/slurmctld.pid\n\
             SlurmdPidFile={folder}/slurmd.pid\nSlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP MaxTime=INFINITE\n"
        );
        fs::write(path("slurm.conf"), lines).unwrap();
    }

    fn start_all(&mut self) {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let files = [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ];
        let options =
            files.map(|(option, ending)| format!("--{option}={}", path(&format!("munge.{ending}"))));
        self.daemon("munged", options.iter().map(String::as_str).chain(["--foreground"]));
        let socket = self.folder.join("munge.socket");
        assert!(becomes(START_LIMIT, || socket.exists()), "munged: {}", self.logs());
        self.daemon("slurmctld", ["-D"]);
        self.daemon("slurmd", ["-D"]);
        let answers =
            || self.srun("--immediate=1 -n 1 true").output().is_ok_and(|output| output.status.success());
        assert!(becomes(START_LIMIT, answers), "no cluster: {}", self.logs());
    }

    fn daemon<'a>(&mut self, name: &str, arguments: impl IntoIterator<Item = &'a str>) {
        let log = fs::File::create(self.folder.join(format!("{name}.out"))).unwrap();
        let mut command = Command::new(find(name).unwrap());
        command.args(arguments).env("SLURM_CONF", self.folder.join("slurm.conf"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn srun(&self, line: &str) -> Command {
        let mut command = Command::new("srun");
        command.env("SLURM_CONF", self.folder.join("slurm.conf")).args(line.split_whitespace());
        command
    }

    /// A job of ranks, more of them than cores.
    fn play(&self, variables: &[(&str, &str)], line: &str) -> Ended {
        let mut command = self.srun(&format!("--mpi=pmi2 --overcommit --quiet {line}"));
        command.envs(variables.iter().copied());
        launch(command).wait()
    }

    fn logs(&self) -> String {
        let logs = DAEMONS
            .map(|name| fs::read_to_string(self.folder.join(format!("{name}.out"))).unwrap_or_default());
        logs.concat()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let pid = Pid::from_raw(i32::try_from(daemon.id()).unwrap());
            let _ = kill(pid, Signal::SIGTERM);
            if !becomes(Duration::from_secs(10), || daemon.try_wait().is_ok_and(|end| end.is_some())) {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program in C over the interface of MPI, in this folder, and where its library is: that which
/// was built with this test. `None` where it cannot be made, with the reason on standard error.
pub(crate) fn in_c(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let own = std::env::current_exe().unwrap();
    let (library, source) = (own.with_file_name("libmpi_abi.so"), Path::new(ABI).join("programs/basics.c"));
    if !library.exists() || find("cc").is_none() {
        eprintln!(
            "skipped for programs in C: no cc, or no libmpi_abi.so, which cargo test --workspace builds"
        );
        return None;
    }
    let (libraries, program) = (folder.join("lib"), folder.join("basics"));
    fs::create_dir_all(&libraries).unwrap();
    std::os::unix::fs::symlink(&library, libraries.join("libmpi_abi.so.1")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(Path::new(ABI).join("include")).arg("-o").arg(&program).arg(source).arg(&library);
    assert!(compiler.status().unwrap().success());
    Some((program, libraries))
}

/// The package of the interface.
const ABI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host-sim/mpi");

/// Returns the path of a program; daemons are not in every user's PATH.
fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default();
    let folders = folders.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    folders.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

#[test]
fn slurm_starts_jobs_and_ends_them() {
    let Some(cluster) = Cluster::start() else { return };
    let example = |name: &str| program("examples").join(name).display().to_string();
    let heat = format!("-n 4 {} --json --width 50 --height 61 --steps 40", example("heat"));
    let pingpong = format!("-n 2 {} --json --millis 5 --max-bytes 4096", example("pingpong"));
    for version in ["1", "2"] {
        for transport in ["auto", "shm", "tcp"] {
            let variables = [("ALDIS_PMI", version), ("ALDIS_TRANSPORT", transport)];
            verified(&cluster.play(&variables, &heat), 1);
            let ended = cluster.play(&variables, &pingpong);
            verified(&ended, ended.out.lines().count().max(1));
        }
        let ended = cluster.play(&[("ALDIS_PMI", version)], &format!("-n 3 {RANK} abort"));
        let told = "rank 2 aborted the job with code 42: nothing to be done";
        assert!(ended.code != Some(0) && ended.err.matches(told).count() == 1, "{ended:#?}");
    }
    let ended = cluster.play(&[("ALDIS_TRANSPORT", "pigeon")], &format!("-n 2 {RANK} rounds"));
    assert_eq!(ended.err.matches("ALDIS_TRANSPORT cannot be \"pigeon\"").count(), 1, "{ended:#?}");
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    if let Some((program, libraries)) = in_c(&cluster.folder) {
        for version in ["1", "2"] {
            let variables = [("ALDIS_PMI", version), ("LD_LIBRARY_PATH", libraries.to_str().unwrap())];
            let ended = cluster.play(&variables, &format!("-n 3 {}", program.display()));
            assert_eq!(
                (ended.code, ended.out.as_str(), ended.err.as_str()),
                (Some(0), "ok\n", ""),
                "{ended:#?}"
            );
        }
    }
    // Slurm lets the others be where a task dies without a word, unless it is told not to.
    let ended = cluster.play(&[], &format!("--kill-on-bad-exit=1 -n 3 {RANK} exit"));
    assert_ne!(ended.code, Some(0), "{ended:#?}");
}
