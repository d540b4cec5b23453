//! What a process used: CPU time and memory, as Linux tells in `/proc`.

use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Clock ticks a second in `/proc`: 100 on every Linux that Rust runs on, whatever the kernel's own rate.
const TICKS_A_SECOND: u64 = 100;

/// What a process used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads, in user and kernel mode.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub resident: u64,
    /// The most that was resident, in bytes.
    pub resident_peak: u64,
}

/// Of a running process.
///
/// # Errors
/// It is gone, or this isn't Linux.
pub fn usage(pid: u32) -> std::io::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let strange = |what: &str| Error::new(ErrorKind::InvalidData, format!("/proc/{pid} has no {what}"));
    let ticks = cpu_ticks(&stat).ok_or_else(|| strange("CPU times"))?;
    let bytes = |name| kibibytes(&status, name).map(|kib| kib * 1024).ok_or_else(|| strange(name));
    Ok(Usage {
        cpu: Duration::from_millis(ticks * 1_000 / TICKS_A_SECOND),
        resident: bytes("VmRSS:")?,
        resident_peak: bytes("VmHWM:")?,
    })
}

/// CPU time of a process and of all its children: those that run, and those that ended and were waited for.
///
/// # Errors
/// It is gone, or this isn't Linux.
pub fn family_cpu(pid: u32) -> std::io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let own = cpu_ticks(&stat).zip(ended_children_ticks(&stat));
    let (own, ended) =
        own.ok_or_else(|| Error::new(ErrorKind::InvalidData, format!("/proc/{pid} has no CPU times")))?;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    // One that has ended since is counted when its parent has waited for it.
    let running = children.split_ascii_whitespace().filter_map(|child| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        cpu_ticks(&stat)
    });
    Ok(Duration::from_millis((own + ended + running.sum::<u64>()) * 1_000 / TICKS_A_SECOND))
}

/// User and kernel time of children that were waited for, fields 16 and 17.
fn ended_children_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

/// User and kernel time, fields 14 and 15. The name in field 2 may hold spaces, so counting starts behind it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 3 0 100 1 2";
        assert_eq!(cpu_ticks(stat), Some(200));
        assert_eq!(ended_children_ticks(stat), Some(18));
        assert_eq!(kibibytes("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n", "VmHWM:"), Some(2048));
        assert_eq!(kibibytes("Name:\tx\n", "VmHWM:"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let used = usage(std::process::id()).unwrap();
        assert!(used.resident > 0 && used.resident_peak >= used.resident, "{used:?}");
        assert!(usage(u32::MAX).is_err());
        assert!(family_cpu(std::process::id()).unwrap() >= used.cpu);
    }
}
