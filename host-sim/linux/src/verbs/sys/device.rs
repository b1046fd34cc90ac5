//! UNSAFE: calls libibverbs. Devices and what may work together on one.

use core::cell::Cell;
use core::ffi::CStr;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::thread;
use std::time::Instant;

use ibverbs_sys as ffi;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::{check, failed};
use crate::verbs::choice::{Description, DevicePort, Gid, NetworkKind, RoceVersion};
use crate::verbs::error::VerbsError;

/// The addresses of a port that are looked at.
const GIDS: usize = 256;

/// The number of times that a device is looked for, after its port has changed.
const DOUBTS: u32 = 8;

/// The longest that a device which was removed takes to say so.
const REMOVAL: Duration = Duration::from_secs(5);

/// An open device.
#[derive(Debug)]
pub(in crate::verbs) struct Device {
    pub(super) context: *mut ffi::ibv_context,
    name: String,
    /// The number of times that it is still looked for.
    doubts: Cell<u32>,
    /// True once it has told that it is of no more use.
    is_fatal: Cell<bool>,
}

/// The number by which soft RoCE calls its vendor (Linux, drivers/infiniband/sw/rxe/rxe_param.h).
const SOFT_VENDOR: u32 = 0xFF_FFFF;
/// The most bytes of an order to soft RoCE, which answers a read with all packets at once, of which
/// the card below it keeps a thousand (its `txqueuelen`): more are lost.
const SOFT_BYTES: u64 = 1 << 20;

/// The limits of a device that matter here.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct DeviceLimits {
    pub(in crate::verbs) pairs: u64,
    pub(in crate::verbs) receives: u64,
    pub(in crate::verbs) completions: u64,
    pub(in crate::verbs) sends: u64,
    /// Bytes of one read or write.
    pub(in crate::verbs) bytes: u64,
    /// Reads and atomics under way, of a queue pair.
    pub(in crate::verbs) reads: u8,
    /// True if it updates words.
    pub(in crate::verbs) has_atomics: bool,
}

impl Device {
    /// Opens all that there are.
    pub(in crate::verbs) fn all() -> Result<Vec<Self>, VerbsError> {
        each(|device, name| {
            // SAFETY: the device is one of the list.
            let context = unsafe { ffi::ibv_open_device(device) };
            if context.is_null() {
                return Err(failed("ibv_open_device"));
            }
            let device = Self { context, name, doubts: Cell::new(0), is_fatal: Cell::new(false) };
            let set = fcntl(device.news(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
            set.map_err(|errno| VerbsError::Call { call: "fcntl", errno })?;
            Ok(device)
        })
    }

    /// The file by which it tells what happens to itself.
    fn news(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and its file is as long as it is.
        unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) }
    }

    /// Returns true if it has failed by now, or is gone. A device tells that; of a soft one the
    /// kernel says that addresses of its port have changed, and then knows it no more.
    pub(in crate::verbs) fn has_failed(&self) -> bool {
        self.take_news();
        let doubts = self.doubts.get();
        self.doubts.set(doubts.saturating_sub(1));
        let is_known = || each(|_, name| Ok(name)).is_ok_and(|names| names.contains(&self.name));
        self.is_fatal.get() || (doubts > 0 && !is_known())
    }

    /// Returns true if it has told that it is of no more use, or does so soon.
    pub(super) fn is_removed(&self) -> bool {
        let start = Instant::now();
        loop {
            self.take_news();
            if self.is_fatal.get() || start.elapsed() > REMOVAL {
                return self.is_fatal.get();
            }
            thread::sleep(REMOVAL / 500);
        }
    }

    /// Takes in what has happened to it.
    fn take_news(&self) {
        loop {
            // SAFETY: all of its fields are numbers or pointers, for which zero is a value.
            let mut event: ffi::ibv_async_event = unsafe { core::mem::zeroed() };
            // SAFETY: the context is open, and the call does not block and writes the event when it
            // returns zero.
            if unsafe { ffi::ibv_get_async_event(self.context, &mut event) } != 0 {
                break;
            }
            match event.event_type {
                ffi::IBV_EVENT_DEVICE_FATAL => self.is_fatal.set(true),
                ffi::IBV_EVENT_PORT_ERR | ffi::IBV_EVENT_GID_CHANGE => self.doubts.set(DOUBTS),
                _ => {}
            }
            // SAFETY: it is the event from above, acknowledged once.
            unsafe { ffi::ibv_ack_async_event(&mut event) };
        }
    }

    pub(in crate::verbs) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::verbs) fn describe(&self) -> Result<Description, VerbsError> {
        let (ports, gids) = (self.attributes()?.phys_port_cnt, self.gids()?);
        let port = |number| {
            let port = self.port(number)?;
            let of_port = |(at, gid): &(u8, Gid)| (*at == number).then(|| gid.clone());
            Ok(DevicePort {
                number,
                is_active: port.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
                // The numbers stand for powers of two from 256.
                mtu: 128_u16.checked_shl(port.active_mtu).unwrap_or(0),
                lid: port.lid,
                gids: gids.iter().filter_map(of_port).collect(),
            })
        };
        let ports = (1..=ports).map(port).collect::<Result<_, VerbsError>>()?;
        Ok(Description { name: self.name.clone(), ports })
    }

    /// Returns what it can do, at most, at a port.
    pub(in crate::verbs) fn limits(&self, port: u8) -> Result<DeviceLimits, VerbsError> {
        let (attributes, port) = (self.attributes()?, self.port(port)?);
        let reads = attributes.max_qp_rd_atom.min(attributes.max_qp_init_rd_atom);
        let number = |value: i32| u64::try_from(value).unwrap_or(0);
        Ok(DeviceLimits {
            pairs: number(attributes.max_qp),
            receives: number(attributes.max_srq_wr),
            completions: number(attributes.max_cqe),
            sends: number(attributes.max_qp_wr),
            bytes: if attributes.vendor_id == SOFT_VENDOR { SOFT_BYTES } else { port.max_msg_sz.into() },
            reads: u8::try_from(reads).unwrap_or(u8::MAX),
            has_atomics: attributes.atomic_cap != ffi::IBV_ATOMIC_NONE,
        })
    }

    fn port(&self, number: u8) -> Result<ffi::ibv_port_attr, VerbsError> {
        let mut port = ffi::ibv_port_attr::default();
        // SAFETY: the context is open, and the call fills in attributes that are as large as these
        // or smaller.
        let code = unsafe { ffi::ibv_query_port(self.context, number, (&raw mut port).cast()) };
        check("ibv_query_port", code)?;
        Ok(port)
    }

    fn attributes(&self) -> Result<ffi::ibv_device_attr, VerbsError> {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut attributes: ffi::ibv_device_attr = unsafe { core::mem::zeroed() };
        // SAFETY: the context is open, and the call fills in the attributes.
        check("ibv_query_device", unsafe { ffi::ibv_query_device(self.context, &mut attributes) })?;
        Ok(attributes)
    }

    /// All addresses, with the ports that they are of.
    fn gids(&self) -> Result<Vec<(u8, Gid)>, VerbsError> {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut entries: Vec<ffi::ibv_gid_entry> = vec![unsafe { core::mem::zeroed() }; GIDS];
        let size = size_of::<ffi::ibv_gid_entry>();
        // SAFETY: there is room for so many entries of this size.
        let count = unsafe { ffi::_ibv_query_gid_table(self.context, entries.as_mut_ptr(), GIDS, 0, size) };
        let count = usize::try_from(count).map_err(|_| VerbsError::Call {
            call: "ibv_query_gid_table",
            errno: Errno::from_raw(i32::try_from(-count).unwrap_or(0)),
        })?;
        let gid = |entry: &ffi::ibv_gid_entry| {
            let kind = match entry.gid_type {
                ffi::IBV_GID_TYPE_ROCE_V1 => NetworkKind::Roce(RoceVersion::V1),
                ffi::IBV_GID_TYPE_ROCE_V2 => NetworkKind::Roce(RoceVersion::V2),
                _ => NetworkKind::Infiniband,
            };
            // SAFETY: its bytes are those of either form.
            let raw = unsafe { entry.gid.raw };
            Some((u8::try_from(entry.port_num).ok()?, Gid { index: entry.gid_index, raw, kind }))
        };
        Ok(entries.iter().take(count).filter_map(gid).collect())
    }
}

/// Does something with each device that there is, and its name.
fn each<T>(
    mut what: impl FnMut(*mut ffi::ibv_device, String) -> Result<T, VerbsError>,
) -> Result<Vec<T>, VerbsError> {
    let mut count = 0;
    // SAFETY: the call writes the number of entries of the list that it returns.
    let list = unsafe { ffi::ibv_get_device_list(&mut count) };
    if list.is_null() {
        return match Errno::last() {
            Errno::ENOSYS | Errno::ENOENT => Err(VerbsError::NoDevice),
            errno => Err(VerbsError::Call { call: "ibv_get_device_list", errno }),
        };
    }
    let of = |at: usize| {
        // SAFETY: the list has `count` entries, each valid until the list is freed; its name ends
        // with a zero byte.
        let (device, name) = unsafe {
            let device = *list.add(at);
            (device, CStr::from_ptr(ffi::ibv_get_device_name(device)))
        };
        what(device, name.to_string_lossy().into_owned())
    };
    let done = (0..usize::try_from(count).unwrap_or(0)).map(of).collect();
    // SAFETY: it is the list from above, and nothing of it is used any more: open devices outlive
    // it.
    unsafe { ffi::ibv_free_device_list(list) };
    done
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: it is open, and what was made from it holds it.
        unsafe { ffi::ibv_close_device(self.context) };
    }
}

/// Objects that may work together.
#[derive(Debug)]
pub(in crate::verbs) struct Domain {
    pub(super) domain: *mut ffi::ibv_pd,
    pub(super) device: Rc<Device>,
}

impl Domain {
    pub(in crate::verbs) fn new(device: Rc<Device>) -> Result<Rc<Self>, VerbsError> {
        // SAFETY: the context is open.
        let domain = unsafe { ffi::ibv_alloc_pd(device.context) };
        if domain.is_null() { Err(failed("ibv_alloc_pd")) } else { Ok(Rc::new(Self { domain, device })) }
    }

    pub(in crate::verbs) const fn device(&self) -> &Rc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it is allocated, and what was made in it holds it.
        unsafe { ffi::ibv_dealloc_pd(self.domain) };
    }
}
