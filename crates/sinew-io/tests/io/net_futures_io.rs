//! Streams and halves are those of the crate `futures-io`.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
use sinew_sched::spawn_future;

use crate::sockets::{in_tasks, pattern, tcp_pair};

async fn read_all(mut stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        let (head, tail) = buffer.split_at_mut(300);
        let mut buffers = [IoSliceMut::new(head), IoSliceMut::new(tail)];
        match poll_fn(|context| Pin::new(&mut stream).poll_read_vectored(context, &mut buffers)).await? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
        match poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer)).await? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

async fn write_all(mut stream: impl AsyncWrite + Unpin, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        let slices = [IoSlice::new(head), IoSlice::new(tail)];
        let written = poll_fn(|context| Pin::new(&mut stream).poll_write_vectored(context, &slices)).await?;
        bytes = &bytes[written..];
        let written = poll_fn(|context| Pin::new(&mut stream).poll_write(context, bytes)).await?;
        bytes = &bytes[written..];
    }
    poll_fn(|context| Pin::new(&mut stream).poll_flush(context)).await?;
    poll_fn(|context| Pin::new(&mut stream).poll_close(context)).await
}

#[test]
fn what_is_written_is_read_and_a_close_is_the_end() {
    in_tasks(|| {
        let (one, other) = tcp_pair()?;
        let writer = spawn_future(async move { write_all(&one, &pattern(1_000_000, 1)).await.map(|()| one) });
        let reader = spawn_future(read_all(other));
        assert!(reader.join().unwrap()? == pattern(1_000_000, 1));
        drop(writer.join().unwrap()?); // it was closed for writing only
        Ok(())
    });
}

#[test]
fn halves_are_read_and_written_at_once() {
    in_tasks(|| {
        let (one, other) = tcp_pair()?;
        let tasks = [one, other].map(|stream| {
            let (reader, writer) = stream.into_split();
            (
                spawn_future(read_all(reader)),
                spawn_future(async move { write_all(writer, &pattern(500_000, 2)).await }),
            )
        });
        for (reader, writer) in tasks {
            writer.join().unwrap()?;
            assert!(reader.join().unwrap()? == pattern(500_000, 2));
        }
        Ok(())
    });
}
