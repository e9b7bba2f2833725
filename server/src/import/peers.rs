//! The servers beside this one: peers from the service URLs, without the server itself, and other regions.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ImportError;
use super::facts::{Facts, Said};
use super::ledger::{Ledger, Told, unusable};
use super::parts::{first, own_port, plain, truth};
use super::profiles::items;
use super::statement::shown;
use super::table::fits;
use crate::config::EurekaUrl;

/// Carries `eureka.peers`.
pub(super) fn peers(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    let used = if truth(facts, USE_DNS)? == Some(true) { Vec::new() } else { service_urls(facts)? };
    let own = Own::read(facts)?;
    let mut found = Found::default();
    let mut all = Vec::new();
    for said in used {
        let Some(text) = ledger.text(facts, said)? else { continue };
        all.extend(urls(said, &text)?.into_iter().map(|url| (said, url)));
        ledger.done(said);
    }
    let alone = own.stands_alone && all.len() == 1;
    for (said, url) in all {
        found.add(ledger, said, &url, &own, alone);
    }
    found.carry(ledger);
    unused(facts, ledger)
}

const USE_DNS: &[&str] = &["eureka.client.use-dns-for-fetching-service-urls", "eureka.shouldUseDns"];
const SERVICE_URLS: [&str; 2] = ["eureka.client.service-url.*", "eureka.serviceUrl.*"];
/// Whose URLs are those of a zone that has none.
const SPARE: [&str; 2] = ["defaultZone", "default"];

/// The service URLs of the own region's zones; those of `defaultZone` for a zone that has none.
fn service_urls(facts: &Facts) -> Result<Vec<&Said>, ImportError> {
    let zones = zones(facts)?.map_or_else(|| vec!["defaultZone".to_owned()], |(zones, _)| zones);
    let mut seen = BTreeSet::new();
    let found = zones.iter().filter_map(|zone| {
        service_url(facts, zone)
            .or_else(|| service_url(facts, "defaultZone"))
            .or_else(|| facts.said("eureka.serviceUrl.default"))
    });
    Ok(found.filter(|said| seen.insert(&said.first().name.canonical)).collect())
}

/// Zones are told apart by their case, too.
fn service_url<'a>(facts: &'a Facts, zone: &str) -> Option<&'a Said> {
    let keyed = |map: &str| {
        let said = facts.said(&format!("{map}[{zone}]"));
        said.filter(|said| said.keys.iter().any(|key| key == zone))
    };
    keyed("eureka.client.service-url").or_else(|| keyed("eureka.serviceUrl"))
}

/// The zones of the own region, and what says so.
pub(super) fn zones(facts: &Facts) -> Result<Option<(Vec<String>, &Said)>, ImportError> {
    let region =
        plain(facts, &["eureka.client.region", "eureka.region"])?.unwrap_or_else(|| "us-east-1".into());
    let names = [
        format!("eureka.client.availability-zones[{region}]"),
        format!("eureka[{region}].availabilityZones"),
    ];
    let names = names.each_ref().map(String::as_str);
    let Some(text) = plain(facts, &names)? else { return Ok(None) };
    Ok(first(facts, &names).map(|said| (items(&text), said)))
}

/// Names what no zone of this server leads to.
fn unused(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    let dns = truth(facts, USE_DNS)? == Some(true);
    let all = facts.iter().map(|(_, said)| said);
    for said in all.filter(|said| SERVICE_URLS.iter().any(|pattern| fits(pattern, &said.first().name))) {
        let reason = if dns {
            "is not read while peers come from DNS; name them in eureka.peers"
        } else if said.keys.iter().any(|key| SPARE.contains(&key.as_str())) {
            "is not read, since each zone of the own region in availability-zones has an entry of its own"
        } else if said.first().name.canonical.ends_with(".defaultzone") {
            "is not read by Spring, which knows the zone as defaultZone and in no other spelling"
        } else {
            "is of a zone that is none of the own region's in availability-zones"
        };
        if !ledger.is_done(said) {
            ledger.leave(said, reason);
        }
    }
    Ok(())
}

/// How a server recognises itself among its peers.
struct Own {
    /// Decides alone, when it is said.
    url: Option<String>,
    hosts: Vec<String>,
    port: Option<u16>,
    /// It neither registers nor fetches, and has no name: the only URL is its own.
    stands_alone: bool,
}

impl Own {
    fn read(facts: &Facts) -> Result<Self, ImportError> {
        let named = |names: &[&str]| plain(facts, names);
        let hosts = [named(&["eureka.instance.hostname"])?, named(&["eureka.instance.ip-address"])?];
        let hosts: Vec<_> = hosts.into_iter().flatten().collect();
        let registers = truth(facts, &["eureka.client.register-with-eureka", "eureka.registration.enabled"])?;
        let fetches = truth(facts, &["eureka.client.fetch-registry", "eureka.shouldFetchRegistry"])?;
        let idle = registers == Some(false) && fetches == Some(false);
        let url = named(&["eureka.server.my-url", "eureka.myUrl"])?;
        Ok(Self { url, stands_alone: idle && hosts.is_empty(), hosts, port: own_port(facts)? })
    }

    fn is(&self, url: &EurekaUrl, written: &str, alone: bool) -> bool {
        if let Some(own) = &self.url {
            return slashed(own) == slashed(written);
        }
        let named = self.is_named(url) || is_loopback(&url.host);
        let port = self.port.is_none_or(|port| port == url.port);
        port && (named || alone && self.port.is_some())
    }

    fn is_named(&self, url: &EurekaUrl) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(&url.host))
    }
}

fn slashed(url: &str) -> String {
    format!("{}/", url.trim_end_matches('/'))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A service URL, taken apart.
struct Url {
    /// As it stands in the file; may hold credentials.
    written: String,
    /// With an explicit port and without credentials.
    plain: String,
    credentials: bool,
    /// The URL for us, or why it is none.
    read: Result<EurekaUrl, String>,
}

/// The URLs of a property. One that is none makes all of it doubtful: a part of a password might be taken for a host.
fn urls(said: &Said, text: &str) -> Result<Vec<Url>, ImportError> {
    let numbered = items(text).into_iter().enumerate();
    let parsed = numbered.map(|(place, item)| {
        let wrong = |reason| unusable(said.first(), format!("item {}: {reason}", place + 1));
        Url::parse(&item).map_err(wrong)
    });
    parsed.collect()
}

impl Url {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        let port = match &*scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err("expected http://host:port/eureka/; a comma in a password is written %2C"),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') || authority.matches('@').count() > 1 {
            return Err(
                "holds an @ beside the one before the host; in a password / is written %2F, and @ %40",
            );
        }
        let (user, place) = authority.split_once('@').map_or(("", authority), |(user, place)| (user, place));
        let after = place.rsplit_once(']').map_or(place, |(_, after)| after);
        let port = if after.contains(':') { String::new() } else { format!(":{port}") };
        let slash = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        let plain = format!("{scheme}://{place}{port}/{path}{slash}");
        Ok(Self {
            written: text.to_owned(),
            credentials: !user.is_empty(),
            read: EurekaUrl::read(&plain),
            plain,
        })
    }

    /// Scheme, host and port: what stands behind them may be secret.
    fn server(&self) -> String {
        let parts: Vec<_> = self.plain.splitn(4, '/').take(3).collect();
        shown(&parts.join("/"))
    }
}

/// Peers so far.
#[derive(Default)]
struct Found<'a> {
    urls: Vec<String>,
    authorities: Vec<String>,
    from: Vec<&'a Said>,
    remarks: BTreeSet<&'static str>,
}

impl<'a> Found<'a> {
    fn add(&mut self, ledger: &mut Ledger, said: &'a Said, url: &Url, own: &Own, alone: bool) {
        let read = match &url.read {
            Ok(read) => read,
            Err(reason) => {
                return ledger.left.push(Told::of(said.first(), format!("{} {reason}", url.server())));
            }
        };
        if own.is(read, &url.written, alone) {
            ledger.left.push(Told::of(said.first(), format!("{} is this server itself", url.plain)));
            return;
        }
        if read.is_secure {
            return ledger.left.push(Told::of(said.first(), format!("{} {TLS}", url.server())));
        }
        self.remark(said, own, read, url.credentials);
        if !self.urls.contains(&url.plain) {
            self.authorities.push(read.authority());
            self.urls.push(url.plain.clone());
        }
        if !self.from.iter().any(|before| std::ptr::eq(*before, said)) {
            self.from.push(said);
        }
    }

    fn remark(&mut self, said: &Said, own: &Own, read: &EurekaUrl, credentials: bool) {
        let remarks = [
            (said.is_list(), "They are written as a list, which Spring itself does not read here."),
            (own.url.is_none() && own.is_named(read), OTHER_PORT),
            (own.url.is_none() && own.hosts.is_empty(), NAMELESS),
            (credentials, CREDENTIALS),
        ];
        self.remarks.extend(remarks.into_iter().filter_map(|(holds, remark)| holds.then_some(remark)));
    }

    fn carry(self, ledger: &mut Ledger) {
        if self.urls.is_empty() {
            return;
        }
        if self.remarks.contains(CREDENTIALS) {
            ledger.warnings.insert(
                "user and password of peers are never printed: set \
                 HEUREKA_EUREKA__PEERS=http://user:password@host:port/eureka/,…",
            );
        }
        let list = toml::Value::from(self.authorities);
        let mut remarks: Vec<_> = self.remarks.into_iter().map(str::to_owned).collect();
        remarks.push(format!("Once they are Heureka themselves, in place of it: peer.list = {list}"));
        ledger.carry("eureka.peers", self.urls.into(), &self.from, remarks);
    }
}

const TLS: &str = "asks for TLS: name it beside tls.ca, which holds in PEM who vouches for it";
const OTHER_PORT: &str =
    "One has this server's name and another port: Eureka takes it for itself, here it is a peer.";
const NAMELESS: &str =
    "No file says this server's own name (eureka.instance.hostname): leave it out when it is among them.";
const CREDENTIALS: &str = "User and password are left out; write them in, or set HEUREKA_EUREKA__PEERS.";

/// Carries `eureka.regions`.
pub(super) fn regions(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    let pattern = "eureka.server.remote-region-urls-with-name.*";
    let (mut list, mut from) = (Vec::new(), Vec::new());
    let all = facts.iter().map(|(_, said)| said);
    for said in all.filter(|said| fits(pattern, &said.first().name)) {
        let key = said.keys.last().cloned().unwrap_or_default();
        let Some(text) = ledger.text(facts, said)? else { continue };
        region(ledger, said, (&key, &text), &mut list)?;
        from.push(said);
    }
    if let Some(said) = facts.said("eureka.remoteRegionUrlsWithName")
        && let Some(text) = ledger.text(facts, said)?
    {
        for pair in items(&text) {
            let pair = pair
                .split_once(';')
                .ok_or_else(|| unusable(said.first(), "expected region;url between commas"))?;
            region(ledger, said, pair, &mut list)?;
        }
        from.push(said);
    }
    if !list.is_empty() {
        ledger.carry("eureka.regions", list.into(), &from, Vec::new());
    }
    from.into_iter().for_each(|said| ledger.done(said));
    Ok(())
}

fn region(
    ledger: &mut Ledger,
    said: &Said,
    (name, text): (&str, &str),
    list: &mut Vec<String>,
) -> Result<(), ImportError> {
    let url = Url::parse(text.trim()).map_err(|reason| unusable(said.first(), reason))?;
    if url.read.as_ref().is_ok_and(|read| read.is_secure) {
        ledger.left.push(Told::of(said.first(), format!("{} {TLS}", url.server())));
        return Ok(());
    }
    let entry = format!("{}={}", name.trim().to_lowercase(), url.plain);
    if let Err(reason) = crate::config::RegionUrl::read(&entry) {
        ledger.left.push(Told::of(said.first(), reason));
        return Ok(());
    }
    if url.credentials {
        ledger.warnings.insert(
            "user and password of regions are never printed: set \
             HEUREKA_EUREKA__REGIONS=region=http://user:password@host:port/eureka/,…",
        );
        ledger.left.push(Told::of(said.first(), "its user and password are secrets, never printed"));
    }
    list.push(entry);
    Ok(())
}
