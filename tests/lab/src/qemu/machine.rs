//! The emulated machines: which emulator, which board, and how a link is plugged in.

use std::path::Path;
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use clap::ValueEnum;

use super::cli::EmulatorLink;
use crate::board;

/// The architecture that a rank runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Arch {
    /// A PC (q35), booted by PVH
    #[value(name = "x86_64")]
    X86_64,
    /// The `virt` board, the architecture of DPUs
    Aarch64,
    /// The `virt` board, without firmware below
    Riscv64,
    /// A microcontroller: Cortex-M4 on the MPS2 board (AN386)
    CortexM,
    /// The `virt` board again, with a rank in C that has the program heat
    #[value(name = "aarch64-c")]
    Aarch64C,
    /// The microcontroller again, with a rank in C that has the program heat
    #[value(name = "cortex-m-c")]
    CortexMC,
    /// A PC again, with a rank in the unikernel ArceOS
    Arceos,
    /// A Linux process of this machine
    Host,
}

/// An emulator and the Debian package that brings it.
type Emulator = (&'static str, &'static str);

impl Arch {
    /// Returns the name that the user types.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
            Self::CortexM => "cortex-m",
            Self::Aarch64C => "aarch64-c",
            Self::CortexMC => "cortex-m-c",
            Self::Arceos => "arceos",
            Self::Host => "host",
        }
    }

    pub(super) fn names() -> String {
        Self::value_variants().iter().map(|arch| arch.name()).collect::<Vec<_>>().join(", ")
    }

    /// The architecture whose emulator, board and devices it has; a rank in C or in a unikernel has
    /// those of one in Rust.
    const fn machine(self) -> Self {
        match self {
            Self::Aarch64C => Self::Aarch64,
            Self::CortexMC => Self::CortexM,
            Self::Arceos => Self::X86_64,
            other => other,
        }
    }

    const fn emulator(self) -> Option<Emulator> {
        match self.machine() {
            Self::X86_64 => Some(("qemu-system-x86_64", "qemu-system-x86")),
            Self::Aarch64 => Some(("qemu-system-aarch64", "qemu-system-arm")),
            Self::CortexM => Some(("qemu-system-arm", "qemu-system-arm")),
            Self::Riscv64 => Some(("qemu-system-riscv64", "qemu-system-misc")),
            _ => None,
        }
    }

    /// The image that a rank of this kind runs, if it is no process.
    pub(super) const fn image(self) -> Option<board::Arch> {
        match self {
            Self::X86_64 => Some(board::Arch::X86_64),
            Self::Aarch64 => Some(board::Arch::Aarch64),
            Self::Riscv64 => Some(board::Arch::Riscv64),
            Self::CortexM => Some(board::Arch::CortexM),
            Self::Aarch64C => Some(board::Arch::Aarch64C),
            Self::CortexMC => Some(board::Arch::CortexMC),
            Self::Arceos => Some(board::Arch::Arceos),
            Self::Host => None,
        }
    }

    /// The emulator, or the compiler of its image, if it is not installed here.
    pub(crate) fn missing(self) -> Option<Outcome> {
        let (program, package) = self.emulator()?;
        if shell::has(program) {
            return self.image().and_then(board::Arch::missing_compiler);
        }
        Some(Outcome::Skipped { why: format!("no {program}"), enable: format!("apt-get install {package}") })
    }

    /// The reason why a rank of this kind cannot stand on such a link, if it cannot.
    pub(super) const fn refuses(self, link: EmulatorLink) -> Option<&'static str> {
        match (self, link) {
            (Self::CortexM | Self::CortexMC, link) if !matches!(link, EmulatorLink::Serial) => {
                Some("the microcontroller has a serial line only: --link serial")
            }
            (Self::Aarch64C, EmulatorLink::Serial | EmulatorLink::Ivshmem | EmulatorLink::Cores) => {
                Some("the board in C has network cards only: --link virtio-net, e1000e or e1000")
            }
            (Self::Arceos, link) if !matches!(link, EmulatorLink::VirtioNet) => {
                Some("the unikernel has a driver of virtio cards only: --link virtio-net")
            }
            (Self::Host, EmulatorLink::Ivshmem | EmulatorLink::Cores) => {
                Some("Linux processes stand on the switch, which --link ivshmem and cores do not have")
            }
            _ => None,
        }
    }

    /// The reason why the cores of such a board cannot be ranks of their own on such a link, if
    /// they cannot.
    pub(super) const fn refuses_cores(self, link: EmulatorLink) -> Option<&'static str> {
        match (self, link) {
            (_, EmulatorLink::Cores) => None,
            (
                Self::X86_64 | Self::Aarch64 | Self::Riscv64,
                EmulatorLink::E1000e | EmulatorLink::VirtioNet,
            ) => None,
            (Self::X86_64 | Self::Aarch64 | Self::Riscv64, _) => {
                Some("cards with a queue for each core are --link virtio-net and, of two, e1000e")
            }
            _ => Some("only boards in Rust, and no microcontroller, have several cores"),
        }
    }

    /// The code with which a good run ends. The PC's debug exit gives 2 x + 1 for x, so that zero,
    /// which a triple fault gives, is never good.
    pub(super) const fn good_code(self) -> i32 {
        if matches!(self.machine(), Self::X86_64) { 33 } else { 0 }
    }

    /// Returns true if what it runs on tells of itself before the rank does.
    pub(super) const fn has_banner(self) -> bool {
        matches!(self, Self::Arceos)
    }
}

/// The place and the command line with which a rank starts.
#[derive(Debug)]
pub(super) struct RankPlace<'a> {
    pub(super) folder: &'a Path,
    pub(super) rank: usize,
    pub(super) link: EmulatorLink,
    /// The cores of the machine that are ranks, of which `rank` counts the machines.
    pub(super) cores: usize,
    /// The cores of the machine that are one rank.
    pub(super) sharing: usize,
    /// The rank's own command line.
    pub(super) words: &'a str,
    /// The program that it runs: an image, or the host's program.
    pub(super) program: &'a Path,
}

impl RankPlace<'_> {
    /// Returns true if its card is on a TAP: emulators have no other card of several queues on a
    /// wire, but for those that need none of the emulator's.
    pub(super) fn is_on_tap(&self) -> bool {
        is_on_taps(self.link, self.cores)
    }
}

/// Returns true if the cards of machines with so many cores are on TAPs.
pub(super) fn is_on_taps(link: EmulatorLink, cores: usize) -> bool {
    link == EmulatorLink::VirtioNet && cores > 1
}

/// The command that starts a rank.
pub(super) fn command(arch: Arch, place: &RankPlace<'_>) -> Command {
    let (kind, arch) = (arch, arch.machine());
    let Some((emulator, _)) = arch.emulator() else {
        let mut host = Command::new(place.program);
        host.arg(place.folder).args(place.words.split(' '));
        return host;
    };
    let mut qemu = self::emulator(emulator);
    board(&mut qemu, arch, place.cores.max(place.sharing));
    qemu.arg("-kernel").arg(place.program);
    match arch {
        // The machine has no kernel command line: semihosting carries the words, each as an
        // argument.
        Arch::CortexM => {
            let words: String = place.words.split(' ').map(|word| format!(",arg={word}")).collect();
            qemu.args(["-semihosting-config", &format!("enable=on,target=native,arg=aldis{words}")]);
        }
        Arch::Aarch64 => {
            qemu.args(["-semihosting-config", "enable=on,target=native", "-append", place.words]);
        }
        // It takes no command line from its loader.
        _ if kind == Arch::Arceos => {
            qemu.args(["-fw_cfg", &format!("name=opt/aldis,string={}", place.words)]);
        }
        _ => {
            qemu.args(["-append", place.words]);
        }
    }
    plug(&mut qemu, arch, place);
    qemu
}

/// An emulator without anything to look at, which ends when its machine would start again.
pub(crate) fn emulator(program: &str) -> Command {
    let mut qemu = Command::new(program);
    qemu.args(["-accel", "tcg", "-display", "none", "-no-reboot", "-monitor", "none"]);
    qemu
}

/// Board, memory and console.
fn board(qemu: &mut Command, arch: Arch, cores: usize) {
    match arch {
        Arch::X86_64 => {
            qemu.args(["-nodefaults", "-no-user-config", "-M", "q35", "-cpu", "max", "-m", "64"]);
            qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        }
        Arch::Aarch64 => {
            qemu.args(["-nodefaults", "-M", "virt,highmem=off", "-cpu", "cortex-a72", "-m", "64"]);
        }
        Arch::Riscv64 => {
            qemu.args(["-nodefaults", "-M", "virt", "-bios", "none", "-m", "64"]);
        }
        Arch::CortexM => {
            qemu.args(["-M", "mps2-an386", "-cpu", "cortex-m4"]);
        }
        _ => {}
    }
    // A second processor that could be plugged in makes atomic operations atomic to other processes
    // too.
    if arch != Arch::CortexM {
        qemu.args(["-smp", &format!("{cores},maxcpus={}", cores.max(2))]);
    }
    qemu.args(["-serial", "stdio"]);
}

fn plug(qemu: &mut Command, arch: Arch, place: &RankPlace<'_>) {
    let RankPlace { folder, rank, .. } = place;
    let folder = folder.display();
    match place.link {
        EmulatorLink::VirtioNet | EmulatorLink::E1000e | EmulatorLink::E1000 => {
            let device = match (place.link, arch) {
                (EmulatorLink::E1000e, _) => "e1000e,romfile=",
                (EmulatorLink::E1000, _) => "e1000,romfile=",
                (_, Arch::X86_64) => "virtio-net-pci,romfile=",
                _ => "virtio-net-device",
            };
            let mac = mac(*rank);
            if place.is_on_tap() {
                // A queue for each core, of which the device chooses by a hash if it is told, and
                // a port of the bridge.
                let queues = place.cores;
                qemu.args([
                    "-device",
                    &format!(
                        "virtio-net-pci,romfile=,netdev=net,mac={mac},mq=on,rss=on,vectors={}",
                        2 * queues + 2
                    ),
                    "-netdev",
                    &format!("tap,id=net,ifname=t{rank},script=no,downscript=no,vhost=off,queues={queues}"),
                ]);
                return;
            }
            qemu.args(["-device", &format!("{device},netdev=net,mac={mac}")]);
            let netdev = format!(
                "dgram,id=net,local.type=unix,local.path={folder}/member{rank}.sock,remote.type=unix,remote.path={folder}/port{rank}.sock"
            );
            qemu.args(["-netdev", &netdev]);
        }
        EmulatorLink::Ivshmem => {
            qemu.args([
                "-object",
                &format!("memory-backend-file,id=shared,share=on,size=16M,mem-path={folder}/memory"),
            ]);
            qemu.args(["-device", "ivshmem-plain,memdev=shared"]);
        }
        EmulatorLink::Cores => {}
        EmulatorLink::Serial => {
            qemu.args(["-chardev", &format!("socket,id=link,path={folder}/serial{rank}.sock")]);
            match arch {
                // These boards have the console's line alone: the second is a card.
                Arch::Aarch64 | Arch::Riscv64 => qemu.args(["-device", "pci-serial,chardev=link"]),
                _ => qemu.args(["-serial", "chardev:link"]),
            };
        }
    }
}

/// The address of a rank's card.
pub(crate) fn mac(rank: usize) -> String {
    format!("02:a1:d1:00:{:02x}:{:02x}", (rank >> 8) & 0xFF, rank & 0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arch: Arch, link: EmulatorLink) -> String {
        let words = "aldis.rank=1 aldis.size=2";
        let cores = if link == EmulatorLink::Cores { 4 } else { 1 };
        let place = RankPlace {
            folder: Path::new("/d"),
            rank: 1,
            link,
            cores,
            sharing: 1,
            words,
            program: Path::new("/p"),
        };
        shell::spell(&command(arch, &place))
    }

    #[test]
    fn a_host_rank_gets_the_folder_and_the_words() {
        assert_eq!(line(Arch::Host, EmulatorLink::VirtioNet), "p /d aldis.rank=1 aldis.size=2");
    }

    #[test]
    fn memory_that_is_shared_is_shared_atomically() {
        for arch in [Arch::X86_64, Arch::Aarch64, Arch::Riscv64] {
            let line = line(arch, EmulatorLink::Ivshmem);
            assert!(line.contains("-smp 1,maxcpus=2") && line.contains("mem-path=/d/memory"), "{line}");
        }
    }

    #[test]
    fn ranks_that_are_cores_are_one_machine_with_as_many() {
        for arch in [Arch::X86_64, Arch::Aarch64, Arch::Riscv64] {
            let line = line(arch, EmulatorLink::Cores);
            assert!(line.contains("-smp 4,maxcpus=4") && !line.contains("netdev"), "{line}");
        }
        for arch in [Arch::CortexM, Arch::Host] {
            assert!(arch.refuses(EmulatorLink::Cores).is_some());
        }
    }

    #[test]
    fn cores_with_a_card_have_queues_of_it() {
        let place = |link, cores| {
            let (words, program) = ("aldis.rank=2", Path::new("/p"));
            let place =
                RankPlace { folder: Path::new("/d"), rank: 1, link, cores, sharing: 1, words, program };
            shell::spell(&command(Arch::Aarch64, &place))
        };
        let tap = place(EmulatorLink::VirtioNet, 2);
        assert!(tap.contains("mq=on,rss=on,vectors=6") && tap.contains("ifname=t1"), "{tap}");
        assert!(tap.contains("-smp 2,maxcpus=2") && tap.contains("vhost=off,queues=2"), "{tap}");
        let switch = place(EmulatorLink::E1000e, 2);
        assert!(switch.contains("port1.sock") && !switch.contains("tap"), "{switch}");
        let refuses = |arch: Arch, link| arch.refuses_cores(link).is_some();
        assert!(refuses(Arch::Host, EmulatorLink::E1000e) && refuses(Arch::X86_64, EmulatorLink::Serial));
        assert!(!refuses(Arch::Riscv64, EmulatorLink::VirtioNet));
    }

    #[test]
    fn cores_that_share_an_endpoint_are_of_one_machine_with_one_queue() {
        let place = RankPlace {
            folder: Path::new("/d"),
            rank: 1,
            link: EmulatorLink::VirtioNet,
            cores: 1,
            sharing: 3,
            words: "aldis.rank=1",
            program: Path::new("/p"),
        };
        let line = shell::spell(&command(Arch::Riscv64, &place));
        assert!(line.contains("-smp 3,maxcpus=3") && line.contains("port1.sock"), "{line}");
    }

    #[test]
    fn a_rank_in_c_has_the_machine_of_one_in_rust() {
        for (c, rust, link) in [
            (Arch::Aarch64C, Arch::Aarch64, EmulatorLink::E1000e),
            (Arch::CortexMC, Arch::CortexM, EmulatorLink::Serial),
        ] {
            assert_eq!((line(c, link), c.refuses(link)), (line(rust, link), None));
        }
        assert!(Arch::Aarch64C.refuses(EmulatorLink::Serial).is_some());
        assert!(Arch::CortexMC.refuses(EmulatorLink::VirtioNet).is_some());
    }

    #[test]
    fn a_rank_in_a_unikernel_has_the_machine_of_one_without() {
        let link = EmulatorLink::VirtioNet;
        let (unikernel, board) = (line(Arch::Arceos, link), line(Arch::X86_64, link));
        let words = "-append aldis.rank=1 aldis.size=2";
        let file = "-fw_cfg name=opt/aldis,string=aldis.rank=1 aldis.size=2";
        assert_eq!(unikernel, board.replace(words, file));
        assert_ne!(unikernel, board);
        assert_eq!((Arch::Arceos.refuses(link), Arch::Arceos.good_code()), (None, 33));
        assert!(Arch::Arceos.refuses(EmulatorLink::E1000e).is_some());
    }

    #[test]
    fn links_are_plugged_into_the_switch() {
        let x86_64 = line(Arch::X86_64, EmulatorLink::VirtioNet);
        assert!(x86_64.contains("virtio-net-pci,romfile=,netdev=net,mac=02:a1:d1:00:00:01"), "{x86_64}");
        assert!(x86_64.contains("remote.path=/d/port1.sock") && x86_64.contains("-nodefaults"), "{x86_64}");
        let gigabit = line(Arch::Aarch64, EmulatorLink::E1000e);
        assert!(gigabit.contains("-device e1000e,romfile=,netdev=net,mac=02:a1:d1:00:00:01"), "{gigabit}");
        let cortex_m = line(Arch::CortexM, EmulatorLink::Serial);
        assert!(cortex_m.ends_with("-serial chardev:link"), "{cortex_m}");
        assert!(cortex_m.contains("arg=aldis,arg=aldis.rank=1,arg=aldis.size=2"), "{cortex_m}");
    }
}
