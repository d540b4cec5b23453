//! How a group shares out partitions: the texts that members exchange (version 0), and the assignor `range`, by which other
//! clients share out as well.

use std::collections::BTreeMap;

/// Name of the assignor.
pub(crate) const RANGE: &str = "range";

pub(crate) type Partitions = BTreeMap<String, Vec<i32>>;

/// A member as the leader is told of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    /// Its static name, by which the order stays the same over restarts.
    pub(crate) instance: Option<String>,
    pub(crate) id: String,
    pub(crate) topics: Vec<String>,
}

/// Which topics a member wants.
pub(crate) fn subscription(topics: &[String]) -> Vec<u8> {
    let mut out = vec![0, 0];
    push_count(&mut out, topics.len());
    for topic in topics {
        push_text(&mut out, topic);
    }
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    out
}

/// The topics in a member's text; what other versions have behind them is passed over.
pub(crate) fn topics_of(mut bytes: &[u8]) -> Option<Vec<String>> {
    take::<2>(&mut bytes)?;
    let count = u32::from_be_bytes(take(&mut bytes)?);
    (0..count).map(|_| take_text(&mut bytes)).collect()
}

/// What a member gets.
pub(crate) fn assignment(partitions: &Partitions) -> Vec<u8> {
    let mut out = vec![0, 0];
    push_count(&mut out, partitions.len());
    for (topic, numbers) in partitions {
        push_text(&mut out, topic);
        push_count(&mut out, numbers.len());
        for number in numbers {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    out
}

/// What we got; nothing where the text is empty.
pub(crate) fn partitions_of(mut bytes: &[u8]) -> Option<Partitions> {
    if bytes.is_empty() {
        return Some(Partitions::new());
    }
    take::<2>(&mut bytes)?;
    let count = u32::from_be_bytes(take(&mut bytes)?);
    let mut partitions = Partitions::new();
    for _ in 0..count {
        let topic = take_text(&mut bytes)?;
        let count = u32::from_be_bytes(take(&mut bytes)?);
        let numbers: Option<Vec<i32>> = (0..count).map(|_| take(&mut bytes).map(i32::from_be_bytes)).collect();
        partitions.insert(topic, numbers?);
    }
    Some(partitions)
}

/// Shares out: of each topic, members in their order get pieces that lie side by side, the first ones one more each where it
/// doesn't come out even.
pub(crate) fn range(peers: &[Peer], counts: &BTreeMap<String, usize>) -> BTreeMap<String, Partitions> {
    let mut peers = peers.to_vec();
    peers.sort();
    let mut shares: BTreeMap<String, Partitions> =
        peers.iter().map(|peer| (peer.id.clone(), Partitions::new())).collect();
    for (topic, count) in counts {
        let takers: Vec<&Peer> = peers.iter().filter(|peer| peer.topics.contains(topic)).collect();
        let (each, more) = (count / takers.len().max(1), count % takers.len().max(1));
        let mut next = 0;
        for (place, taker) in takers.iter().enumerate() {
            let piece = each + usize::from(place < more);
            let numbers = (next..next + piece).filter_map(|number| i32::try_from(number).ok()).collect();
            next += piece;
            if let Some(share) = shares.get_mut(&taker.id)
                && piece > 0
            {
                share.insert(topic.clone(), numbers);
            }
        }
    }
    shares
}

fn push_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16::from_be_bytes(take(bytes)?));
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(head.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn peer(instance: Option<&str>, id: &str, topics: &[&str]) -> Peer {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        Peer { instance: instance.map(str::to_owned), id: id.to_owned(), topics }
    }

    #[test]
    fn texts_are_read_back_and_cut_ones_are_none() {
        let topics = ["a".to_owned(), "b.c".to_owned()];
        let text = subscription(&topics);
        assert_eq!(topics_of(&text).unwrap(), topics);
        assert_eq!(topics_of(text.get(..8).unwrap()), None);
        let partitions = Partitions::from([("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![])]);
        let text = assignment(&partitions);
        assert_eq!(partitions_of(&text).unwrap(), partitions);
        assert_eq!(partitions_of(text.get(..12).unwrap()), None);
        assert_eq!(partitions_of(&[]).unwrap(), Partitions::new());
    }

    #[test]
    fn each_partition_is_given_to_one_member_that_wants_its_topic() {
        let peers =
            [peer(Some("w-1"), "z", &["a", "b"]), peer(Some("w-0"), "y", &["a"]), peer(Some("w-2"), "x", &["a"])];
        let counts = BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 2)]);
        let shares = range(&peers, &counts);
        assert_eq!(shares["y"], Partitions::from([("a".to_owned(), vec![0, 1, 2])]));
        assert_eq!(shares["z"], Partitions::from([("a".to_owned(), vec![3, 4]), ("b".to_owned(), vec![0, 1])]));
        assert_eq!(shares["x"], Partitions::from([("a".to_owned(), vec![5, 6])]));
    }

    #[test]
    fn more_members_than_partitions_leave_some_without() {
        let shares = range(&[peer(None, "a", &["t"]), peer(None, "b", &["t"])], &BTreeMap::from([("t".to_owned(), 1)]));
        assert_eq!((shares["a"].len(), shares["b"].len()), (1, 0));
    }
}
