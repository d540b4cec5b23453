//! Signals: SIGTERM and SIGINT end the host, SIGHUP has it read its configuration again.

/// A subscription to the signals that end a host.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

/// A subscription to SIGHUP.
pub struct Hangups {
    #[cfg(unix)]
    hangups: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen. The default action of each of them is off from here on.
    #[cfg(unix)]
    pub fn listen() -> std::io::Result<(Self, Hangups)> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangups = Hangups { hangups: signal(SignalKind::hangup())? };
        Ok((Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? }, hangups))
    }

    /// Waits for the next signal to end.
    #[cfg(unix)]
    pub async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub fn listen() -> std::io::Result<(Self, Hangups)> {
        Ok((Self {}, Hangups {}))
    }

    /// Waits for the next Ctrl-C.
    #[cfg(not(unix))]
    pub async fn end(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Hangups {
    /// Waits for the next one; several before it count as one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        if self.hangups.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// There is no such signal here.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
