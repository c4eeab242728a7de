//! The closing handshake.

use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::client::{Client, Family, connect};
use super::fixture::RoomFixture;

/// Each row: the code and the reason of a close frame, and those of the response.
#[tokio::test]
async fn close_frame_is_answered_before_and_after_join() {
    let fixture = RoomFixture::start().await;
    let frame = |code: u16, reason: &'static str| {
        Some(CloseFrame { code: code.into(), reason: reason.into() })
    };
    for (sent, expected) in [
        (frame(1000, "done"), (1000, "done")),
        (frame(1001, ""), (1001, "")),
        (frame(4321, "own code"), (4321, "own code")),
        (None, (0, "")),
        (frame(1005, "never sent"), (1002, "Protocol violation")),
    ] {
        let socket = connect(fixture.server.address, "/ws", None).await.unwrap();
        let early = Client::new(socket, Family::Mew04);
        let mut joined = fixture.join(Family::Mew04, "ada", "lobby").await;
        // Messages of the participant are on the way when it closes.
        for _ in 0..300 {
            joined.feed_chat("more").await;
        }
        for mut client in [early, joined] {
            client.send(Message::Close(sent.clone())).await;
            let (code, reason) = client.wait_closed().await;
            assert_eq!((code, reason.as_str()), expected, "{sent:?} as `{}`", client.id);
        }
    }
    fixture.stop().await;
}

/// Each row: a first frame that is not a message, and the code that closes the connection.
#[tokio::test]
async fn invalid_first_frame_is_closed_with_reason() {
    let fixture = RoomFixture::start().await;
    let too_large = "x".repeat(5 * 1024 * 1024);
    for (first, expected) in
        [(Message::binary(vec![0xff, 0xfe]), 4403), (Message::text(too_large), 1009)]
    {
        let socket = connect(fixture.server.address, "/ws?space=lobby", None).await.unwrap();
        let mut client = Client::new(socket, Family::Mew04);
        client.send(first).await;
        assert_eq!(client.wait_closed().await.0, expected);
    }
    fixture.stop().await;
}
