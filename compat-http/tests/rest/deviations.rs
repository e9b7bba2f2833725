//! Where ours answers otherwise on purpose. Each entry is a line of `docs/eureka-compat.md`.

use std::fmt;

/// One place at which an answer differs from the recorded one.
pub(crate) struct Difference {
    pub(crate) scenario: String,
    pub(crate) step: String,
    pub(crate) request: String,
    pub(crate) sent: String,
    pub(crate) what: String,
    pub(crate) theirs: String,
    pub(crate) ours: String,
}

impl Difference {
    fn is(&self, what: &str, theirs: &str, ours: &str) -> bool {
        self.what == what && self.theirs == theirs && self.ours == ours
    }

    fn status(&self, theirs: &str, ours: &str) -> bool {
        self.is("status", theirs, ours)
    }

    fn in_any(&self, scenarios: &[&str]) -> bool {
        scenarios.contains(&self.scenario.as_str())
    }

    /// The code of an item of a batch.
    fn is_item(&self, theirs: &str, ours: &str) -> bool {
        self.member() == "statusCode" && self.theirs == theirs && self.ours == ours
    }

    /// The step's name, without its number.
    fn step(&self) -> &str {
        self.step.split_once(' ').map_or("", |(_, name)| name)
    }

    /// The step's name holds one of the words.
    fn named(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.step().contains(word))
    }

    /// The member at which the documents differ.
    fn member(&self) -> &str {
        self.what.rsplit('/').next().unwrap_or_default()
    }

    fn theirs_text(&self) -> &str {
        self.theirs.trim_matches('"')
    }

    /// The step reads something back.
    fn reads(&self) -> bool {
        self.request.starts_with("GET")
    }

    /// What was taken there and refused here is found there only.
    fn refused_here(&self) -> bool {
        self.status("204", "400") || (self.reads() && self.status("200", "404")) || self.gone_from_list()
    }

    /// What was refused there and is taken here is found here only.
    fn taken_here(&self) -> bool {
        self.status("400", "204") || (self.reads() && self.status("404", "200")) || self.new_in_list()
    }

    fn gone_from_list(&self) -> bool {
        self.what.ends_with(']') && self.theirs == "present"
    }

    fn new_in_list(&self) -> bool {
        self.what.ends_with(']') && self.ours == "present"
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, step, request, what, theirs, ours, .. } = self;
        write!(f, "{scenario}: {step}: {request}: {what}: theirs {theirs:.200}, ours {ours:.200}")
    }
}

struct Deviation {
    number: u32,
    covers: fn(&Difference) -> bool,
}

/// In the order of the documentation.
const DEVIATIONS: &[Deviation] = &[
    Deviation { number: 1, covers: refusals_say_their_reason_as_plain_text },
    Deviation { number: 2, covers: nobody_is_told_406 },
    Deviation { number: 3, covers: roots_and_slashes },
    Deviation { number: 4, covers: encoded_slashes },
    Deviation { number: 5, covers: ids_are_printed },
    Deviation { number: 6, covers: bare_ports },
    Deviation { number: 7, covers: data_center_class },
    Deviation { number: 8, covers: ports_in_range },
    Deviation { number: 9, covers: caller_faults_are_400 },
    Deviation { number: 10, covers: null_metadata },
    Deviation { number: 11, covers: single_xml_status },
    Deviation { number: 12, covers: type_says_what_the_body_is },
    Deviation { number: 13, covers: late_peer_copies },
    Deviation { number: 14, covers: lease_terms },
    Deviation { number: 15, covers: removed_override_restores },
    Deviation { number: 16, covers: owners_override_is_ignored },
    Deviation { number: 17, covers: override_stamp_is_ignored },
    Deviation { number: 18, covers: unknown_override_is_none },
    Deviation { number: 19, covers: modified_when_it_was_there },
    Deviation { number: 20, covers: gzip_bodies },
    Deviation { number: 21, covers: gzip_negotiation },
    Deviation { number: 22, covers: delta_number },
    Deviation { number: 23, covers: stamp_conflicts },
    Deviation { number: 24, covers: empty_texts },
    Deviation { number: 25, covers: unknown_members },
    Deviation { number: 26, covers: amazon_blocks },
    Deviation { number: 27, covers: junk_numbers },
    Deviation { number: 28, covers: nested_metadata },
    Deviation { number: 29, covers: flags },
    Deviation { number: 30, covers: metadata_keys_in_xml },
    Deviation { number: 31, covers: control_characters_in_names },
    Deviation { number: 32, covers: half_surrogates },
    Deviation { number: 33, covers: compact_extra },
    Deviation { number: 34, covers: reserved_names },
    Deviation { number: 35, covers: vip_lists },
    Deviation { number: 36, covers: path_parameters },
    Deviation { number: 37, covers: content_type_of_reads },
    Deviation { number: 38, covers: utf_16 },
    Deviation { number: 39, covers: group_in_upper_case },
    Deviation { number: 40, covers: poison },
    Deviation { number: 41, covers: allow_of_odd_verbs },
    Deviation { number: 42, covers: peers_override_shows_at_once },
    Deviation { number: 43, covers: a_bad_item_costs_itself },
    Deviation { number: 44, covers: unknown_members_of_batches },
    Deviation { number: 45, covers: batches_are_answered_in_json },
];

/// Numbers of the deviations that explain the difference.
pub(crate) fn covering(difference: &Difference) -> impl Iterator<Item = u32> {
    DEVIATIONS.iter().filter(|deviation| (deviation.covers)(difference)).map(|deviation| deviation.number)
}

/// All numbers.
pub(crate) fn numbers() -> impl Iterator<Item = u32> {
    DEVIATIONS.iter().map(|deviation| deviation.number)
}

fn refusals_say_their_reason_as_plain_text(d: &Difference) -> bool {
    let typed = d.what == "Content-Type" && d.ours == "text/plain; charset=utf-8";
    let unparsed = [
        "{\"error\": \"cannot parse request body\"}",
        "<error><message>cannot parse request body</message></error>",
    ];
    typed || (d.what == "text" && (unparsed.contains(&d.theirs.as_str()) || d.theirs.is_empty()))
}

fn nobody_is_told_406(d: &Difference) -> bool {
    let told = d.what == "status" && d.theirs == "406";
    // What the 406 left undone has its effect here.
    let effect = d.scenario == "accept" && d.named(&["406:", "heartbeat", "GET with unknown"]);
    told || effect
}

fn roots_and_slashes(d: &Difference) -> bool {
    let path = d.request.split(' ').nth(1).unwrap_or_default();
    let lower = path.to_ascii_lowercase();
    let versions = ["/v1/", "/v2/", "/eureka/v1/"].iter().any(|root| lower.starts_with(root));
    let root = versions || path.starts_with("/eureka/V2/") || path.starts_with("/apps");
    let slashes = path.starts_with("/eureka") && path.contains("//");
    let served = d.status("404", "200") || d.status("404", "204");
    (served && (root || slashes)) || (path.starts_with("/eureka/v2x") && d.status("200", "404"))
}

fn encoded_slashes(d: &Difference) -> bool {
    let path = d.request.to_ascii_lowercase();
    let encoded = (path.contains("%2f") || path.contains("%5c")) && d.what == "status" && d.theirs == "400";
    let raw = d.request.contains('\\') && d.status("400", "404");
    let later = d.step() == "left over" && d.status("200", "404");
    let listed = d.scenario == "names" && d.step() == "all names";
    encoded || raw || later || listed
}

fn ids_are_printed(d: &Difference) -> bool {
    d.member() == "instanceId" && matches!(d.theirs_text(), "absent" | "")
}

fn bare_ports(d: &Difference) -> bool {
    let bare =
        d.named(&["bare port", "port number", "port string", "Port number", "Port string", "README form"]);
    let at = d.named(&["port enabled without @", "port extra member"]);
    ((bare || at) && d.taken_here())
        || (d.scenario == "register-port" && d.new_in_list())
        || (d.scenario == "register-xml" && d.step() == "port blanks" && d.taken_here())
}

fn data_center_class(d: &Difference) -> bool {
    let named = d.named(&[
        "no @class",
        "empty @class",
        "unknown @class",
        "metadata null",
        "metadata object",
        "fargo JSON",
        "rust-eureka",
    ]);
    (named && d.taken_here())
        || shapes_list(d)
        || (d.what == "text" && d.ours.starts_with("Missing dataCenterInfo Name"))
}

/// Lists after bodies that only we take.
fn shapes_list(d: &Difference) -> bool {
    let list = d.scenario == "register-shapes" && d.named(&["F01 GET"]);
    list && (d.new_in_list() || matches!(d.member(), "name" | "apps__hashcode"))
}

fn ports_in_range(d: &Difference) -> bool {
    let named = d.named(&[
        "negative",
        "65536",
        "70000",
        "too big",
        "port text",
        "port empty text",
        "fraction",
        "$ bool",
        "port yes",
    ]);
    (d.in_any(&["register-port", "register-xml"]) && named && d.refused_here())
        || (d.scenario == "register-port" && d.gone_from_list())
}

fn caller_faults_are_400(d: &Difference) -> bool {
    d.status("500", "400")
        || d.status("500", "415")
        || d.status("no answer", "400")
        || (d.status("200", "400") && d.named(&["bad dirty"]))
}

fn null_metadata(d: &Difference) -> bool {
    d.what.contains("/metadata/") && d.theirs_text() == "null" && d.ours == "absent"
}

fn single_xml_status(d: &Difference) -> bool {
    d.is("/instance/status", "DOWN", "OUT_OF_SERVICE") || d.is("/instance/status", "DOWN", "UNKNOWN")
}

fn type_says_what_the_body_is(d: &Difference) -> bool {
    let parameters = d.what == "Content-Type" && d.theirs.starts_with(&d.ours) && d.theirs.contains(';');
    let other = d.what == "Content-Type" && d.scenario == "accept";
    parameters || other || d.is("Content-Type", "APPLICATION/JSON", "application/json")
}

fn late_peer_copies(d: &Difference) -> bool {
    d.step().starts_with("F28 l2") && d.status("200", "404")
}

fn lease_terms(d: &Difference) -> bool {
    let clamped = d.what.contains("/leaseInfo/") && d.ours == "86400";
    clamped || (d.named(&["leaseInfo beyond int"]) && d.taken_here())
}

fn removed_override_restores(d: &Difference) -> bool {
    let item = d.scenario == "batch" && d.member() == "statusCode" && d.is_item("404", "200");
    let lifecycle = item || d.in_any(&["override-lifecycle", "delta", "field-F19-codes", "batch"]);
    let status = d.what.ends_with("status") && d.theirs_text() == "UNKNOWN" && d.ours.contains("UP");
    let beat = d.request.starts_with("PUT") && d.status("404", "200");
    lifecycle
        && (item || status || beat || d.is("/applications/apps__hashcode", "\"UNKNOWN_1_\"", "\"UP_1_\""))
}

fn owners_override_is_ignored(d: &Difference) -> bool {
    let sent = d.named(&["overridden", "both spellings"]);
    sent && d.in_any(&["register-status", "register-xml"])
        && matches!(d.member(), "status" | "overriddenStatus" | "overriddenstatus" | "serviceUpTimestamp")
}

fn override_stamp_is_ignored(d: &Difference) -> bool {
    let stamped = d.in_any(&["status", "override-lifecycle", "replication-header"]);
    stamped && d.member() == "lastDirtyTimestamp"
}

fn unknown_override_is_none(d: &Difference) -> bool {
    d.scenario == "status"
        && (d.named(&["after UNKNOWN", "(UNKNOWN)", "after UP", "(UP)", "after bad dirty"])
            && (matches!(d.member(), "status" | "overriddenStatus") || d.status("404", "200")))
}

fn modified_when_it_was_there(d: &Difference) -> bool {
    d.member() == "actionType" && d.theirs_text() == "ADDED" && d.ours.trim_matches('"') == "MODIFIED"
}

fn gzip_bodies(d: &Difference) -> bool {
    d.step() == "gzip request body" && d.status("400", "204")
}

fn gzip_negotiation(d: &Difference) -> bool {
    d.what == "Content-Encoding" && d.named(&["gzip;q=0", "GZIP"])
}

fn delta_number(d: &Difference) -> bool {
    d.what == "/applications/versions__delta" && d.request.contains("/delta")
}

fn stamp_conflicts(d: &Difference) -> bool {
    d.scenario == "conflict" && matches!(d.member(), "ipAddr" | "hostName" | "lastDirtyTimestamp")
}

fn empty_texts(d: &Difference) -> bool {
    d.theirs_text().is_empty() && d.ours == "absent" && !d.what.contains("/metadata/")
}

fn unknown_members(d: &Difference) -> bool {
    let hazard = d.scenario == "register-hazards";
    let beat = d.named(&["still well"]) && d.status("404", "200");
    let lists = d.new_in_list() || d.gone_from_list() || d.member() == "apps__hashcode";
    hazard && (d.taken_here() || beat || lists || d.what == "text")
}

fn amazon_blocks(d: &Difference) -> bool {
    let named = d.named(&["Amazon"]) && d.in_any(&["register-datacenter", "register-xml"]);
    named && (d.taken_here() || d.member() == "lastDirtyTimestamp")
}

fn junk_numbers(d: &Difference) -> bool {
    let junk = d.named(&["leaseInfo text", "countryId text", "timestamps text", "dirty beyond long"]);
    let empty = d.named(&[
        "lastDirtyTimestamp: \"\"",
        "countryId: \"\"",
        "timestamps empty",
        "countryId empty",
        "F09 delta",
        "dirty negative",
        "leaseInfo empty members",
    ]);
    (junk && d.refused_here())
        || (empty && (d.taken_here() || matches!(d.member(), "lastDirtyTimestamp" | "countryId")))
}

fn nested_metadata(d: &Difference) -> bool {
    let nested = d.named(&["metadata nested"]) && d.refused_here();
    nested || (d.scenario == "register-metadata" && d.gone_from_list())
}

fn flags(d: &Difference) -> bool {
    d.member() == "@enabled" && (d.named(&["TRUE", "FALSE"]) || d.what.contains("p-TRUE"))
}

fn metadata_keys_in_xml(d: &Difference) -> bool {
    d.what.contains("/metadata/c:d") || d.what.contains("/metadata/c_.003ad") || d.what == "document"
}

fn control_characters_in_names(d: &Difference) -> bool {
    d.named(&["'tab\\tx'"]) && (d.status("204", "400") || d.status("200", "400"))
}

fn half_surrogates(d: &Difference) -> bool {
    d.scenario == "register-poison"
        && (d.named(&["lone surrogate"]) && d.refused_here() || (d.sent.is_empty() && d.status("200", "404")))
}

fn compact_extra(d: &Difference) -> bool {
    d.member() == "registeredApplicationsEmpty"
}

fn reserved_names(d: &Difference) -> bool {
    d.request.to_ascii_uppercase().contains("/ALL_APPS") && d.status("200", "404")
}

fn vip_lists(d: &Difference) -> bool {
    d.scenario == "reads" && (d.request.contains("svips/") || d.step() == "old vip")
}

fn path_parameters(d: &Difference) -> bool {
    let path = d.request.as_str();
    (path.contains(";x=1") || path.contains(";v=1")) && d.status("200", "404")
        || (path.contains('#') && d.status("400", "200"))
        || (path.contains('é') && (d.status("400", "404") || d.status("400", "200")))
        || d.what.ends_with("/metadata/raw")
}

fn content_type_of_reads(d: &Difference) -> bool {
    d.named(&["unknown type", "unknown Content-Type"]) && d.theirs == "400"
}

fn utf_16(d: &Difference) -> bool {
    d.named(&["UTF-16 JSON"]) && d.refused_here()
}

fn group_in_upper_case(d: &Difference) -> bool {
    d.member() == "appGroupName" && d.theirs.to_uppercase() == d.ours
}

fn poison(d: &Difference) -> bool {
    d.scenario == "register-poison"
        && (d.what == "body" || d.what == "Content-Type" || d.status("404", "200") || d.status("500", "200"))
}

fn allow_of_odd_verbs(d: &Difference) -> bool {
    d.what == "Allow" && d.request.starts_with("TRACE")
}

fn peers_override_shows_at_once(d: &Difference) -> bool {
    let shown =
        d.in_any(&["heartbeat", "batch"]) && d.member() == "status" && d.ours.contains("OUT_OF_SERVICE");
    shown || (d.scenario == "heartbeat" && d.status("500", "404"))
}

fn a_bad_item_costs_itself(d: &Difference) -> bool {
    let whole =
        ["unknown action", "lower-case", "bad timestamp", "null item", "item is", "broken instanceInfo"];
    let alone = d.is_item("500", "400") || d.is_item("200", "400") || d.is_item("500", "200");
    let later = d.named(&["g1 stored?"]) && d.status("404", "200");
    let taken = d.named(&whole) && (d.status("400", "200") || d.status("500", "200"));
    let wrapped = d.named(&["instanceInfo wrapped"]) && d.member() == "statusCode";
    d.scenario == "batch" && (alone || later || taken || wrapped)
}

fn unknown_members_of_batches(d: &Difference) -> bool {
    d.scenario == "batch" && d.named(&["unknown item key", "unknown top key"]) && d.status("400", "200")
}

fn batches_are_answered_in_json(d: &Difference) -> bool {
    d.scenario == "batch" && d.is("Content-Type", "application/xml", "application/json")
}
