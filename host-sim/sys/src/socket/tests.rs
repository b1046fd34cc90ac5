use super::*;
use crate::Errno;
use crate::signal::{SigHandler, Signal, signal};

/// Programs in C have not turned the signal off as Rust's have.
#[test]
fn a_stream_without_a_reader_is_an_error_and_no_signal() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(listener.accept().unwrap());
    let (left, right) = local::UnixStream::pair().unwrap();
    drop(right);
    // SAFETY: the default action runs no code of this process.
    let before = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.unwrap();
    let streams: [&mut dyn Write; 2] = [&mut TcpStream(stream), &mut UnixStream(left)];
    for stream in streams {
        let pieces = [IoSlice::new(b"one"), IoSlice::new(b"two")];
        // The first that comes to the other end of TCP is answered by a reset.
        let whole = (0..1000).find_map(|_| stream.write(b"alone").err()).unwrap();
        let listed = stream.write_vectored(&pieces).unwrap_err();
        assert!([Errno::EPIPE, Errno::ECONNRESET].contains(&crate::errno_of(whole)));
        assert_eq!(crate::errno_of(listed), Errno::EPIPE);
    }
    // SAFETY: what was there before.
    unsafe { signal(Signal::SIGPIPE, before) }.unwrap();
}
