//! What signals mean to the command: its end, something for the program, or nothing.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::broadcast,
};

use super::Say;

/// How many signals may wait to be handed on. The program would have got fewer of them: the kernel merges those that wait.
const SIGNALS_WAITING: usize = 16;

/// The signals that end the command.
pub(crate) struct Ends([Signal; 2]);

impl Ends {
    /// Hears them from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        let Self([terminate, interrupt]) = self;
        tokio::select! {
            biased;
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}

/// From now on, hands on what is meant for the program to whoever runs it, and lets pass what would end this process for nothing.
pub(crate) fn hand_on(say: &Say) -> io::Result<broadcast::Sender<i32>> {
    let (sender, _) = broadcast::channel(SIGNALS_WAITING);
    let meant_for_it = [
        ("SIGHUP", SignalKind::hangup()),
        ("SIGUSR1", SignalKind::user_defined1()),
        ("SIGUSR2", SignalKind::user_defined2()),
        ("SIGWINCH", SignalKind::window_change()),
    ];
    for (name, kind) in meant_for_it {
        let (mut signals, sender, say) = (signal(kind)?, sender.clone(), say.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if sender.send(kind.as_raw_value()).is_err() {
                    say.line(format_args!("{name}: the program does not run here"));
                }
            }
        });
    }
    // A handler stays, and does nothing. "Ignored" would be inherited by the program.
    for kind in [SignalKind::pipe(), SignalKind::alarm(), SignalKind::quit()] {
        let _ = signal(kind)?;
    }
    Ok(sender)
}
