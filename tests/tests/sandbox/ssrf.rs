//! The guard against requests to the inside: a table of peers as plugins may spell them, with resolvers that answer what
//! they like, and a listener on loopback that must see nobody.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use url::Url;
use waybill_core::endpoint::Grants;
use waybill_sandbox::grants::{ConnectFailure, EgressPolicy, OwnListeners, Pattern, Resolve, Target};
use waybill_sandbox::limits::RESOLVED_FRESH;

/// Answers from a table; a name asked for again gets its next answer.
#[derive(Default)]
struct Table {
    answers: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Table {
    fn with(mut self, name: &'static str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.answers.insert(name, answers);
        self
    }
}

#[async_trait]
impl Resolve for Table {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.answers.get(name).ok_or_else(|| io::Error::other("unknown name"))?;
        Ok(answers.get(turn).or(answers.last()).cloned().unwrap_or_default())
    }
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::parse(text).expect("a pattern")).collect()
}

/// A grant of these patterns; a word of its own says that exact names may lead inside.
fn grants(texts: &[&str]) -> Grants {
    let (words, texts): (Vec<&str>, Vec<&str>) = texts.iter().partition(|text| **text == "internal");
    Grants { internal: !words.is_empty(), ..Grants::none().allow(texts) }
}

fn policy(grant: &[&str], table: Table) -> EgressPolicy {
    let ask = patterns(&["http://*:*", "https://*:*", "tcp://*:*"]);
    EgressPolicy::new("hooks", ask, &grants(grant), Arc::new(table)).expect("patterns")
}

fn target(url: &str) -> Result<Target, ConnectFailure> {
    match url.strip_prefix("tcp:") {
        Some(_) => Target::from_stream_uri(url),
        None => {
            let url = Url::parse(url).map_err(|error| ConnectFailure::BadAddress(error.to_string()))?;
            Target::from_url(&url)
        }
    }
}

async fn verdict(grant: &[&str], url: &str) -> &'static str {
    let table = Table::default()
        .with("public.example", &[&["93.184.216.34"]])
        .with("inside.example", &[&["10.1.2.3"]])
        .with("loop.example", &[&["127.0.0.1"]])
        .with("mixed.example", &[&["93.184.216.34", "192.168.0.9"]])
        .with("six.example", &[&["2606:4700::1111", "fd00::1"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("nat64.example", &[&["64:ff9b::7f00:1"]])
        .with("meta.example", &[&["169.254.169.254"]])
        .with("link.example", &[&["fe80::1"]])
        .with("zero.example", &[&["0.0.0.0"]])
        .with("empty.example", &[&[]])
        .with("localhost", &[&["127.0.0.1", "::1"]])
        .with("metadata.google.internal", &[&["93.184.216.34"]])
        .with("a.b.example", &[&["93.184.216.34"]]);
    let policy = policy(grant, table);
    let found = match target(url) {
        Ok(target) => policy.addresses(&target).await.map(|_| ()),
        Err(failure) => Err(failure),
    };
    match found {
        Ok(()) => "reached",
        Err(ConnectFailure::Denied(_)) => "denied",
        Err(ConnectFailure::Resolve(_)) => "unresolved",
        Err(ConnectFailure::BadAddress(_)) => "bad",
        Err(other) => panic!("{url}: {other}"),
    }
}

#[tokio::test]
async fn a_wildcard_reaches_the_public_internet_and_nothing_else() {
    for (url, expected) in [
        ("http://public.example/", "reached"),
        ("http://public.example./", "reached"),
        ("http://PUBLIC.example/", "reached"),
        ("https://93.184.216.34/", "reached"),
        ("http://[2606:4700::1111]/", "reached"),
        ("tcp://public.example:4222", "reached"),
        // This machine, in every spelling.
        ("http://127.0.0.1/", "denied"),
        ("http://127.1/", "denied"),
        ("http://127.0.1/", "denied"),
        ("http://2130706433/", "denied"),
        ("http://0x7f000001/", "denied"),
        ("http://0177.0.0.1/", "denied"),
        ("http://0x7f.0.0.1/", "denied"),
        ("http://127.0.0.1./", "denied"),
        ("http://%31%32%37.0.0.1/", "denied"),
        ("http://①②⑦.0.0.1/", "denied"),
        ("http://[::1]/", "denied"),
        ("http://[::ffff:127.0.0.1]/", "denied"),
        ("http://[::ffff:7f00:1]/", "denied"),
        ("http://[::127.0.0.1]/", "denied"),
        ("http://localhost/", "denied"),
        ("http://LOCALHOST./", "denied"),
        ("http://loop.example/", "denied"),
        ("http://mapped.example/", "denied"),
        ("tcp://127.0.0.1:4222", "denied"),
        ("tcp://[::1]:4222", "denied"),
        ("tcp://0x7f.1:4222", "denied"),
        // What isn't a peer at all.
        ("http://0.0.0.0/", "denied"),
        ("http://0/", "denied"),
        ("http://[::]/", "denied"),
        ("http://zero.example/", "denied"),
        ("http://224.0.0.1/", "denied"),
        ("http://255.255.255.255/", "denied"),
        ("http://[ff02::1]/", "denied"),
        // Private networks.
        ("http://10.0.0.1/", "denied"),
        ("http://172.16.0.1/", "denied"),
        ("http://172.31.255.255/", "denied"),
        ("http://192.168.0.1/", "denied"),
        ("http://100.64.0.1/", "denied"),
        ("http://[fd12::1]/", "denied"),
        ("http://inside.example/", "denied"),
        // One bad answer spoils the good ones.
        ("http://mixed.example/", "denied"),
        ("http://six.example/", "denied"),
        // Link-local and cloud metadata.
        ("http://169.254.1.1/", "denied"),
        ("http://169.254.169.254/latest/meta-data/", "denied"),
        ("http://2852039166/", "denied"),
        ("http://[::ffff:169.254.169.254]/", "denied"),
        ("http://[fd00:ec2::254]/", "denied"),
        ("http://100.100.100.200/", "denied"),
        ("http://168.63.129.16/", "denied"),
        ("http://meta.example/", "denied"),
        ("http://metadata.google.internal/", "denied"),
        ("http://link.example/", "denied"),
        ("http://[fe80::1]/", "denied"),
        // Addresses that carry another inside, and reserved ones.
        ("http://[64:ff9b::7f00:1]/", "denied"),
        ("http://nat64.example/", "denied"),
        ("http://[2002:7f00:1::]/", "denied"),
        ("http://[2001::1]/", "denied"),
        ("http://192.0.2.1/", "denied"),
        ("http://198.18.0.1/", "denied"),
        ("http://240.0.0.1/", "denied"),
        // Not peers by their form.
        ("http://user:pass@public.example/", "bad"),
        ("ftp://public.example/", "bad"),
        ("http://public.example:0/", "bad"),
        ("tcp://public.example", "bad"),
        ("tcp://public.example:4222/x", "bad"),
        ("tcp://user@public.example:4222", "bad"),
        ("http://nosuch.example/", "unresolved"),
        ("http://empty.example/", "unresolved"),
    ] {
        assert_eq!(verdict(&["http://*:*", "https://*:*", "tcp://*:*"], url).await, expected, "{url}");
    }
}

#[tokio::test]
async fn the_inside_is_reached_when_it_is_named() {
    for (grant, url, expected) in [
        ("http://localhost:*", "http://localhost:8080/", "reached"),
        ("https://localhost", "https://localhost/", "reached"),
        ("http://127.0.0.0/8:*", "http://127.0.0.1:8080/", "reached"),
        ("http://127.0.0.0/8:*", "http://localhost:8080/", "denied"),
        ("tcp://10.0.0.0/8:5672", "tcp://10.9.9.9:5672", "reached"),
        ("tcp://10.0.0.0/8:5672", "tcp://10.9.9.9:5673", "denied"),
        ("tcp://10.0.0.0/8:5672", "tcp://11.0.0.1:5672", "denied"),
        // Where a name leads is its owner's choice.
        ("http://inside.example", "http://inside.example/", "denied"),
        ("https://inside.example", "https://inside.example/", "denied"),
        ("tcp://inside.example:4222", "tcp://inside.example:4222", "denied"),
        ("http://loop.example", "http://loop.example/", "denied"),
        ("http://mapped.example", "http://mapped.example/", "denied"),
        ("http://mixed.example", "http://mixed.example/", "denied"),
        ("http://public.example", "http://public.example/", "reached"),
        ("http://meta.example", "http://meta.example/", "denied"),
        ("http://link.example", "http://link.example/", "denied"),
        // A network that holds the metadata address doesn't grant it; the address itself does.
        ("http://169.254.0.0/16", "http://169.254.169.254/", "denied"),
        ("http://0.0.0.0/0", "http://169.254.169.254/", "denied"),
        ("http://169.254.169.254", "http://169.254.169.254/", "reached"),
        ("http://169.254.169.254", "http://meta.example/", "denied"),
        ("http://metadata.google.internal", "http://metadata.google.internal/", "reached"),
        // Nothing makes these peers.
        ("http://0.0.0.0/0", "http://0.0.0.0/", "denied"),
        ("http://0.0.0.0", "http://0.0.0.0/", "denied"),
        ("http://224.0.0.0/4", "http://224.0.0.1/", "denied"),
        // Scheme and port belong to the grant.
        ("http://public.example", "https://public.example/", "denied"),
        ("https://public.example", "https://public.example/", "reached"),
        ("http://public.example", "http://public.example:8080/", "denied"),
        ("tcp://public.example:80", "http://public.example/", "denied"),
        ("http://*.b.example", "http://a.b.example/", "reached"),
        ("http://*.a.b.example", "http://a.b.example/", "denied"),
    ] {
        assert_eq!(verdict(&[grant], url).await, expected, "{grant} for {url}");
    }
}

#[tokio::test]
async fn a_name_leads_inside_when_the_grant_says_so() {
    for (grant, url, expected) in [
        (&["internal", "http://inside.example"][..], "http://inside.example/", "reached"),
        (&["internal", "tcp://inside.example:4222"], "tcp://inside.example:4222", "reached"),
        (&["internal", "http://loop.example"], "http://loop.example/", "reached"),
        (&["internal", "http://mixed.example"], "http://mixed.example/", "reached"),
        // A network beside the name says the same of that network.
        (&["http://inside.example", "http://10.0.0.0/8"], "http://inside.example/", "reached"),
        (&["http://inside.example", "http://10.1.2.3"], "http://inside.example/", "reached"),
        (&["http://inside.example", "http://10.0.0.0/8:81"], "http://inside.example/", "denied"),
        (&["http://inside.example", "https://10.0.0.0/8"], "http://inside.example/", "denied"),
        (&["http://inside.example", "http://192.168.0.0/16"], "http://inside.example/", "denied"),
        // Of exact names, and of nothing worse than private networks.
        (&["internal", "http://*:*"], "http://inside.example/", "denied"),
        (&["internal", "http://*.example"], "http://inside.example/", "denied"),
        (&["internal", "http://meta.example"], "http://meta.example/", "denied"),
        (&["internal", "http://link.example"], "http://link.example/", "denied"),
        (&["internal", "http://nat64.example"], "http://nat64.example/", "denied"),
        (&["internal", "http://zero.example"], "http://zero.example/", "denied"),
        // Of one name, and not of the others beside it.
        (&["internal:http://inside.example", "http://loop.example"], "http://inside.example/", "reached"),
        (&["internal:http://inside.example", "http://loop.example"], "http://loop.example/", "denied"),
        (&["internal:http://loop.example:81", "http://loop.example"], "http://loop.example/", "denied"),
        (&["internal:tcp://inside.example:4222"], "tcp://inside.example:4222", "reached"),
        (&["internal:http://meta.example"], "http://meta.example/", "denied"),
    ] {
        assert_eq!(verdict(grant, url).await, expected, "{grant:?} for {url}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_line_to_add() {
    let policy = policy(&["https://inside.example"], Table::default().with("inside.example", &[&["10.1.2.3"]]));
    let Err(ConnectFailure::Denied(why)) = policy.addresses(&target("https://inside.example/").unwrap()).await else {
        panic!("reached")
    };
    for part in [
        "10.1.2.3, a private address",
        "\"https://10.1.2.3:443\"",
        "allow.net of hooks",
        "\"internal:https://inside.example:443\"",
        "allow.internal = true",
    ] {
        assert!(why.contains(part), "{why}");
    }
}

/// Whoever may send a message would otherwise speak to the API as a program of this machine.
#[tokio::test]
async fn the_hosts_own_listener_is_reached_only_when_it_is_granted_exactly() {
    let own = OwnListeners::default();
    own.add("127.0.0.1:7070".parse().unwrap());
    let verdict = async |grant: &[&str], url: &str| {
        let table = Table::default().with("localhost", &[&["127.0.0.1"]]).with("loop.example", &[&["127.0.0.1"]]);
        policy(grant, table).beside(own.clone()).addresses(&target(url).unwrap()).await.map(|_| ())
    };
    for url in ["http://127.0.0.1:7070/v1/transactions", "http://localhost:7070/", "http://[::ffff:127.0.0.1]:7070/"] {
        let wide = ["http://localhost:*", "http://127.0.0.0/8:*", "http://127.0.0.0/8:7070"];
        let Err(ConnectFailure::Denied(why)) = verdict(&wide, url).await else { panic!("{url} is reached") };
        assert!(why.contains("this host itself") && why.contains("\"http://127.0.0.1:7070\""), "{why}");
    }
    let grant = ["internal", "http://loop.example:*"];
    assert!(verdict(&grant, "http://loop.example:7070/").await.is_err());
    assert!(verdict(&grant, "http://loop.example:7071/").await.is_ok(), "another port is another program");
    // Whoever owns the name could point it here.
    for grant in [&["internal", "http://loop.example:7070"][..], &["internal:http://loop.example:7070"]] {
        let Err(ConnectFailure::Denied(why)) = verdict(grant, "http://loop.example:7070/").await else {
            panic!("{grant:?} reaches the host itself")
        };
        assert!(why.contains("this host itself"), "{why}");
    }
    assert!(verdict(&["tcp://127.0.0.0/8:*"], "tcp://127.0.0.1:7070").await.is_err());
    assert!(verdict(&["http://127.0.0.1:7070"], "http://127.0.0.1:7070/").await.is_ok());
    assert!(verdict(&["http://localhost:7070"], "http://localhost:7070/").await.is_ok());
}

#[tokio::test]
async fn an_ungranted_name_is_not_even_looked_up() {
    let table = Arc::new(Table::default().with("secret-data.evil.example", &[&["93.184.216.34"]]));
    let resolver: Arc<dyn Resolve> = table.clone();
    let policy =
        EgressPolicy::new("hooks", patterns(&["http://*:*"]), &grants(&["http://public.example"]), resolver).unwrap();
    let target = target("http://secret-data.evil.example/").unwrap();
    assert!(matches!(policy.addresses(&target).await, Err(ConnectFailure::Denied(_))));
    assert_eq!(table.asked.load(Ordering::SeqCst), 0);
}

/// A name that answers with a public address first and with this machine afterwards: each connection is checked against
/// the very answer it uses.
#[tokio::test]
async fn rebinding_reaches_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connects = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connects);
    std::thread::spawn(move || {
        while listener.accept().is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // A documentation address answers nothing, so the first connection fails without leaving this machine's network.
    let table = Table::default().with("rebind.example", &[&["93.184.216.34"], &["127.0.0.1"], &["::ffff:127.0.0.1"]]);
    let policy = policy(&["http://*:*"], table);
    let target = target(&format!("http://rebind.example:{port}/")).unwrap();
    assert!(policy.addresses(&target).await.is_ok(), "the first answer is public");
    for _ in 0..3 {
        // What was answered before isn't used any more.
        tokio::time::pause();
        tokio::time::advance(RESOLVED_FRESH).await;
        tokio::time::resume();
        let refused = policy.connect(&target, Duration::from_secs(2)).await;
        assert!(matches!(refused, Err(ConnectFailure::Denied(_))), "{refused:?}");
    }
    assert_eq!(connects.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn too_many_addresses_are_refused_rather_than_half_checked() {
    let many: Vec<String> = (0..100).map(|n| format!("93.184.216.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let policy = policy(&["http://*:*"], Table::default().with("many.example", &[&many]));
    let target = target("http://many.example/").unwrap();
    assert!(matches!(policy.addresses(&target).await, Err(ConnectFailure::Resolve(_))));
}
