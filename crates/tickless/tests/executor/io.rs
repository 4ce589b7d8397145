//! Tests of tasks that wait for descriptors, which the workers watch themselves.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tickless::executor::io::Async;
use tickless::{Executor, coop, task, time};

use crate::executor;

fn pair() -> (Async<UnixStream>, Async<UnixStream>) {
    let (one, two) = UnixStream::pair().expect("a pair of sockets");
    let watch = |socket| Async::new(socket).expect("it can be watched");
    (watch(one), watch(two))
}

fn pipe() -> (Async<PipeReader>, PipeWriter) {
    let (reader, writer) = io::pipe().expect("a pipe");
    (Async::new(reader).expect("it can be watched"), writer)
}

async fn read_byte(socket: &Async<UnixStream>) -> u8 {
    let mut byte = [0];
    let read = socket.read_with(|mut socket| socket.read_exact(&mut byte));
    read.await.expect("it is open");
    byte[0]
}

async fn write_byte(socket: &Async<UnixStream>, byte: u8) {
    let write = socket.write_with(|mut socket| socket.write_all(&[byte]));
    write.await.expect("it is open");
}

#[test]
fn tasks_talk_through_sockets() {
    for workers in [1, 2] {
        let executor = executor(workers);
        executor.block_on(async {
            let pairs: Vec<_> = (0..20)
                .map(|_| {
                    let (one, two) = pair();
                    let echo = task::spawn(async move {
                        for _ in 0..50 {
                            let byte = read_byte(&two).await;
                            write_byte(&two, byte + 1).await;
                        }
                    });
                    let asks = task::spawn(async move {
                        for number in 0..50 {
                            write_byte(&one, number).await;
                            assert_eq!(read_byte(&one).await, number + 1);
                        }
                    });
                    (echo, asks)
                })
                .collect();
            for (echo, asks) in pairs {
                asks.await.expect("as it should be");
                echo.await.expect("as it should be");
            }
        });
    }
}

#[test]
fn what_does_not_fit_waits_for_room() {
    const LENGTH: usize = 1 << 20;
    let executor = executor(2);
    executor.block_on(async {
        let (one, two) = pair();
        let writes = task::spawn(async move {
            let mut left = &[7; LENGTH][..];
            while !left.is_empty() {
                let write = one.write_with(|mut socket| socket.write(left));
                left = &left[write.await.expect("it is open")..];
            }
        });
        let (mut room, mut all) = ([0; 4_096], 0);
        while all < LENGTH {
            all += two
                .read_with(|mut socket| socket.read(&mut room))
                .await
                .expect("it is open");
        }
        writes.await.expect("it ends");
        // The other side is gone, which is something to read.
        let end = two.read_with(|mut socket| socket.read(&mut room)).await;
        assert_eq!(end.expect("no error"), 0);
        let (one, two) = pair();
        drop(two);
        let refused = one.write_with(|mut socket| socket.write(b"x")).await;
        assert_eq!(refused.expect_err("gone").kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn timers_fire_while_a_worker_waits_for_descriptors() {
    let executor = executor(1);
    executor
        .block_on(executor.spawn(async {
            let (reader, mut writer) = pipe();
            let waits = task::spawn(async move {
                reader.readable().await.expect("it is watched");
                reader
            });
            for _ in 0..20 {
                let due = time::Instant::now() + Duration::from_micros(300);
                time::sleep_until(due).await;
                assert!(time::Instant::now() >= due);
                assert!(!waits.is_finished());
            }
            writer.write_all(b"x").expect("there is room");
            waits.await.expect("it ends");
        }))
        .expect("as it should be");
}

#[test]
fn a_worker_that_never_parks_looks_too() {
    let builder = Executor::builder().workers(1);
    let executor = builder.build().expect("there are threads enough");
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    // Alone with its checkpoints there is no tick that would end its slice.
    let hog = executor.spawn(async move {
        while !seen.load(Ordering::Relaxed) {
            coop::checkpoint().await;
        }
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    let waits = executor.spawn(async move {
        let (reader, writer) = pipe();
        sender.send(writer).expect("the test waits");
        reader.readable().await.expect("it is watched");
        stop.store(true, Ordering::Relaxed);
    });
    let mut writer = receiver.recv().expect("it begins");
    std::thread::sleep(Duration::from_millis(2));
    writer.write_all(b"x").expect("there is room");
    executor.block_on(waits).expect("it ends");
    executor.block_on(hog).expect("it ends");
}

#[test]
fn a_descriptor_of_a_foreign_thread_is_attended_by_a_worker_that_sleeps() {
    let executor = executor(2);
    for _ in 0..50 {
        executor.block_on(async {
            let (reader, mut writer) = pipe();
            let wait = reader.readable();
            let writes = task::spawn(async move {
                time::sleep(Duration::from_micros(50)).await;
                writer.write_all(b"x").expect("there is room");
                writer
            });
            wait.await.expect("it is watched");
            writes.await.expect("it ends");
        });
    }
}

#[test]
fn several_wait_for_one_descriptor_and_some_give_up() {
    let executor = executor(2);
    executor.block_on(async {
        let (reader, mut writer) = pipe();
        let reader = Arc::new(reader);
        let waits = |reader: &Arc<Async<PipeReader>>| {
            let reader = Arc::clone(reader);
            task::spawn(async move { reader.readable().await.expect("it is watched") })
        };
        let (gives_up, others) = (waits(&reader), [waits(&reader), waits(&reader)]);
        let timeout = time::timeout(Duration::from_millis(1), reader.readable()).await;
        timeout.expect_err("there is nothing");
        gives_up.abort();
        gives_up.await.expect_err("it was aborted");
        writer.write_all(b"x").expect("there is room");
        for other in others {
            other.await.expect("all are told");
        }
        // By its level: what is there already is enough.
        reader.readable().await.expect("it is watched");
        let mut byte = [0];
        let read = reader.read_with(|mut pipe| pipe.read(&mut byte)).await;
        assert_eq!(read.expect("it is there"), 1);
        let timeout = time::timeout(Duration::from_millis(1), reader.readable()).await;
        timeout.expect_err("there is nothing any more");
    });
}

#[test]
fn both_directions_are_waited_for_at_once() {
    let executor = executor(1);
    executor
        .block_on(executor.spawn(async {
            let (one, mut two) = UnixStream::pair().expect("a pair of sockets");
            let one = Arc::new(Async::new(one).expect("it can be watched"));
            // Full.
            while one.get_ref().write(&[0; 4_096]).is_ok() {}
            let (reads, writes) = (Arc::clone(&one), Arc::clone(&one));
            let reads = task::spawn(async move { reads.readable().await.expect("it is watched") });
            let writes =
                task::spawn(async move { writes.writable().await.expect("it is watched") });
            time::sleep(Duration::from_micros(200)).await;
            assert!(!reads.is_finished() && !writes.is_finished());
            two.write_all(b"x").expect("there is room");
            reads.await.expect("it ends");
            assert!(!writes.is_finished(), "it goes on");
            two.set_nonblocking(true).expect("it can be");
            while two.read(&mut [0; 4_096]).is_ok() {}
            writes.await.expect("it ends");
        }))
        .expect("as it should be");
}

#[test]
fn bad_descriptors_are_errors() {
    let outside = Async::new(UnixStream::pair().expect("a pair of sockets").0);
    let outside = outside.expect_err("no executor is here");
    assert_eq!(outside.kind(), io::ErrorKind::NotConnected);
    let executor = executor(1);
    executor.block_on(async {
        let file = File::open("/proc/self/exe").expect("it is there");
        let refused = Async::new(file).expect_err("files are always ready");
        assert_eq!(refused.raw_os_error(), Some(1), "EPERM: {refused}");
        let (one, _two) = UnixStream::pair().expect("a pair of sockets");
        let borrowed: BorrowedFd<'_> = one.as_fd();
        let first = Async::new(borrowed).expect("it can be watched");
        let refused = Async::new(borrowed).expect_err("it is watched");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        // It can be watched again when that is over.
        first.into_inner();
        Async::new(borrowed).expect("it can be watched");
    });
}

#[test]
fn the_end_of_the_executor_ends_each_wait() {
    let executor = executor(2);
    let (reader, _writer) = executor.block_on(async { pipe() });
    let reader = Arc::new(reader);
    let of_task = Arc::clone(&reader);
    let waits = executor.spawn(async move { of_task.readable().await });
    let of_thread = Arc::clone(&reader);
    let thread = std::thread::spawn(move || {
        futures::executor::block_on(of_thread.readable()).expect_err("it ends")
    });
    std::thread::sleep(Duration::from_millis(1));
    drop(executor);
    let ended = thread.join().expect("it ends");
    assert_eq!(
        ended.to_string(),
        "the executor that watches the descriptor has ended"
    );
    futures::executor::block_on(async {
        reader.readable().await.expect_err("it has ended");
        // Cancelled, or told.
        let _either = waits.await;
    });
}
