//! Network cards on PCI in the hands of ranks, in a guest that has an IOMMU: Intel's 82574L at one
//! end of a wire and a virtio network device at the other, each taken from the kernel's driver.

use core::time::Duration;
use std::path::PathBuf;

use aldis_shell::steps::Outcome;
use anyhow::{Context, Result, bail};

use super::console::Ran;
use super::guest::{GuestClock, GuestKind, PCI_CARDS};
use super::session::{self, Session};

/// The time that the guest may take: many times what it needs alone.
const LIMIT: Duration = Duration::from_secs(240);

/// The two cards of a job by the numbers of its ranks.
const OF_RANKS: &str = "pci:0000:00:1%r.0";

/// The words before the commands that hand a card over; a guest has loaded its modules.
const REMEDY: &str = "as root: modprobe vfio-pci; ";

/// A command of the guest, and the texts that it says.
type Scene = (String, Vec<String>);

/// Runs jobs over PCI cards in a guest. `programs` are those of this machine that it takes: the
/// launcher, `aldis-nic` and the rank that the launcher's tests start.
pub fn pci_cards(programs: Vec<PathBuf>) -> Result<Outcome> {
    if let Some(missing) = session::missing() {
        return Ok(missing);
    }
    let scenes = scenes();
    let commands = vec![scenes.iter().map(|(command, _)| command.clone()).collect()];
    let (kind, clock) = (GuestKind::PciCards, GuestClock::Wall);
    let session = Session { kind, programs, commands, clock, limit: LIMIT, loud: false };
    let guests = session.play().context("cards on PCI in a guest")?;
    let ran = guests.first().map_or(&[][..], Vec::as_slice);
    for ((command, texts), ran) in scenes.iter().zip(ran) {
        compare(command, texts, ran)?;
    }
    let figures = ran.iter().map(Ran::text).find(|text| text.contains("round trip"));
    let figures = figures.context("the bench has said nothing")?;
    Ok(Outcome::Passed(figures.lines().map(str::trim).collect::<Vec<_>>().join(", ")))
}

fn compare(command: &str, texts: &[String], ran: &Ran) -> Result<()> {
    let said = ran.text();
    match texts.iter().find(|text| !said.contains(*text)) {
        None => Ok(()),
        Some(text) => bail!("`{command}` did not say `{text}`, but\n{said}"),
    }
}

/// The scenes, one after the other.
fn scenes() -> Vec<Scene> {
    let [(_, gigabit), (_, virtio)] = PCI_CARDS;
    let job = |nic: &str, rank: &str| {
        format!("aldis-run -n 2 --timeout 100 --transport ethernet --nic {nic} launcher_rank {rank}")
    };
    let as_user = |command: &str| format!("su user -c '{command}'");
    let fails = |command: &str| format!("! {command}");
    let echo = |card: &str| format!("aldis-nic echo pci:{card} --seconds 0.1");
    let scene =
        |command: String, texts: &[&str]| (command, texts.iter().map(|text| (*text).into()).collect());
    let there = "for which there is no driver here; there are drivers for 8086:10d3 (82574L)";
    vec![
        scene(
            "aldis-nic list".into(),
            &[
                &format!("the system's driver e1000e has {gigabit} (eth0); hand it to vfio-pci"),
                &format!("the system's driver virtio-pci has {virtio}; hand it to vfio-pci"),
            ],
        ),
        // What a user is told is what is done.
        scene(format!("aldis-nic list | sed -n 's/.*{REMEDY}//p' | sh -ex"), &[]),
        scene("aldis-nic list | grep -c '^pci:.* vfio-pci .* yes$'".into(), &["2"]),
        scene(
            format!("aldis-nic bench pci:{gigabit} pci:{virtio} --rounds 50 --seconds 0.2"),
            &["(VFIO behind an IOMMU, polled)", "round trip  median "],
        ),
        scene(job(OF_RANKS, "levels"), &[]),
        scene(fails(&job(&format!("pci:{gigabit}"), "greet")), &["another process has 0000:00:10.0"]),
        scene(fails(&echo("0000:00:1f.0")), &[there]),
        scene(
            fails(&echo("0000:00:09.0")),
            &["no PCI device is at 0000:00:09.0; network cards are 0000:00:10.0, 0000:00:11.0"],
        ),
        // Behind an IOMMU no job needs root.
        scene("echo user:x:1000:1000::/:/bin/sh > /etc/passwd".into(), &[]),
        scene(fails(&as_user(&echo(gigabit))), &["no permission for 0000:00:10.0: /dev/vfio/"]),
        scene("chown 1000 /dev/vfio/[0-9]*".into(), &[]),
        scene(as_user(&job(&format!("{OF_RANKS},udp"), "levels")), &[]),
        scene(
            fails(&as_user(&format!("ulimit -l 1024; {}", echo(gigabit)))),
            &["may not lock 2048 KiB of memory for 0000:00:10.0; raise the limit (ulimit -l)"],
        ),
        scene(taken_away(&job(OF_RANKS, "hang"), gigabit), &["the system has asked for 0000:00:10.0 back"]),
    ]
}

/// Takes a card away from a job that runs. The system waits until the job has given it back.
fn taken_away(job: &str, card: &str) -> String {
    format!(
        "{job} > /tmp/out 2>&1 & job=$!; until [ $(grep -c 'has pid' /tmp/out) = 2 ]; do usleep 50000; done; \
         echo {card} > /sys/bus/pci/drivers/vfio-pci/unbind; ! wait $job && cat /tmp/out"
    )
}
