//! Those that register themselves.

use super::models::{micronaut, rust};
use super::{Ask, Client, Headers, JSON, Look, Sees, XML};
use crate::readers::{Reader, go, steeltoe, xml};

const NONE: Headers = &[];
const SENDS_JSON: Headers = &[("content-type", "application/json")];
const SENDS_XML: Headers = &[("content-type", "application/xml")];
const ASKS_JSON: Headers = &[("accept", "application/json"), ("accept-encoding", "gzip")];
const ASKS_XML: Headers = &[("accept", "application/xml"), ("accept-encoding", "gzip")];

/// ArthurHlt's says JSON on every request and never what it wants to be told, which is XML.
const ARTHUR: Headers = &[("content-type", "application/json"), ("accept-encoding", "gzip")];
/// HikoQiu's derives what it accepts from what it would send.
const HIKO: Headers =
    &[("accept", "application/json"), ("content-type", "application/json"), ("accept-encoding", "gzip")];
const STEELTOE: Headers =
    &[("accept", "application/json"), ("x-discovery-allowredirect", "false"), ("accept-encoding", "gzip")];
const STEELTOE_SENDS: Headers = &[
    ("accept", "application/json"),
    ("x-discovery-allowredirect", "false"),
    ("content-type", "application/json; charset=utf-8"),
];

const fn ask(method: &'static str, path: &'static str, headers: Headers, code: u16) -> Ask {
    Ask { method, path, headers, body: "", code }
}

const fn post(path: &'static str, headers: Headers, body: &'static str) -> Ask {
    Ask { method: "POST", path, headers, body, code: 204 }
}

const fn look(path: &'static str, headers: Headers, reader: Reader, sees: Sees) -> Look {
    Look { path, headers, kind: JSON, reader, sees }
}

/// No id, which its host name stands in for, and a lease in a member that nobody reads.
const ARTHUR_BODY: &str = r#"{"instance":{"hostName":"go.local","statusPageUrl":"http://go.local:9701/info",
    "app":"ARTHUR","ipAddr":"127.0.0.1","vipAddress":"arthur","status":"UP","port":{"$":9701,"@enabled":true},
    "dataCenterInfo":{"name":"MyOwn","@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"},
    "leaseInfo":{"evictionDurationInSecs":30},"metadata":{"a_b":"c\u0026d \u003ce\u003e","zone":"z"}}}"#;

/// The application in lower case, the override in the spelling of XML.
const XUANBO_BODY: &str = r#"{"instance":{"hostName":"go.local","homePageUrl":"http://127.0.0.1:9702",
    "statusPageUrl":"http://127.0.0.1:9702/info","app":"xuanbo-app","ipAddr":"127.0.0.1","vipAddress":"xuanbo-app",
    "secureVipAddress":"xuanbo-app","status":"UP","port":{"$":9702,"@enabled":"true"},
    "dataCenterInfo":{"name":"MyOwn","@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"},
    "leaseInfo":{"renewalIntervalInSecs":1,"durationInSecs":30},"metadata":{"zone":"z"},"overriddenstatus":"UNKNOWN",
    "instanceId":"127.0.0.1:xuanbo-app:9702"}}"#;

/// Starting, with a lease in a spelling that nobody reads.
const HIKO_BODY: &str = r#"{"instance":{"hostName":"go.local","app":"HIKO","ipAddr":"127.0.0.1","vipAddress":"hiko",
    "secureVipAddress":"hiko","status":"STARTING","port":{"$":9703,"@enabled":"true"},
    "securePort":{"$":443,"@enabled":"false"},"homePageUrl":"http://127.0.0.1:9703",
    "dataCenterInfo":{"name":"MyOwn","@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"},
    "leaseInfo":{"eviction_duration_in_secs":30},"instanceId":"go.local:HIKO:9703"}}"#;

/// XML without the class of the data centre and with an id of its own.
const ST3V_BODY: &str = "<instance><hostName>go.local</hostName><app>ST3V</app><ipAddr>127.0.0.1</ipAddr>\
    <vipAddress>st3v</vipAddress><secureVipAddress></secureVipAddress><status>UP</status>\
    <port enabled=\"true\">9704</port><securePort enabled=\"false\">0</securePort><homePageUrl></homePageUrl>\
    <statusPageUrl></statusPageUrl><healthCheckUrl></healthCheckUrl><dataCenterInfo><name>MyOwn</name></dataCenterInfo>\
    <leaseInfo><renewalIntervalInSecs>1</renewalIntervalInSecs><durationInSecs>30</durationInSecs></leaseInfo>\
    <instanceId>st3v-1</instanceId><metadata><k>v</k></metadata></instance>";

/// Steeltoe 4: numbers as numbers, the override in lower case.
const STEELTOE_BODY: &str = r#"{"instance":{"instanceId":"net.local:steel app:9705","app":"STEEL","ipAddr":"127.0.0.1",
    "sid":"na","port":{"@enabled":"true","$":9705},"securePort":{"@enabled":"false","$":0},
    "homePageUrl":"http://net.local:9705/","statusPageUrl":"http://net.local:9705/info",
    "healthCheckUrl":"http://net.local:9705/health","vipAddress":"steel","secureVipAddress":"steel","countryId":1,
    "dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},
    "hostName":"net.local","status":"UP","overriddenstatus":"UNKNOWN",
    "leaseInfo":{"renewalIntervalInSecs":1,"durationInSecs":30},"isCoordinatingDiscoveryServer":"false",
    "metadata":{"zone":"z"},"lastUpdatedTimestamp":"1796004000000","lastDirtyTimestamp":"1796004000000"}}"#;

/// Steeltoe 2 and 3: times of the lease as texts, and null for whatever is not set.
const OLD_STEELTOE_BODY: &str = r#"{"instance":{"instanceId":"net.local:oldsteel:9706","app":"OLDSTEEL","appGroupName":null,
    "ipAddr":"127.0.0.1","sid":"na","port":{"@enabled":"true","$":"9706"},"securePort":{"@enabled":"false","$":"0"},
    "homePageUrl":null,"statusPageUrl":null,"healthCheckUrl":null,"secureHealthCheckUrl":null,"vipAddress":"oldsteel",
    "secureVipAddress":null,"countryId":1,"dataCenterInfo":{"@class":
    "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},"hostName":"net.local","status":"UP",
    "overriddenStatus":"UNKNOWN","leaseInfo":{"renewalIntervalInSecs":1,"durationInSecs":30,"registrationTimestamp":"0",
    "lastRenewalTimestamp":"0","renewalTimestamp":"0","evictionTimestamp":"0","serviceUpTimestamp":"0"},
    "isCoordinatingDiscoveryServer":false,"metadata":null,"lastUpdatedTimestamp":"1796004000000",
    "lastDirtyTimestamp":"1796004000000","actionType":null,"asgName":null}}"#;

/// Micronaut: the application as the service is called.
const MICRONAUT_BODY: &str = r#"{"instance":{"instanceId":"jvm.local:orders-api:9707","hostName":"jvm.local",
    "app":"orders-api","ipAddr":"127.0.0.1","vipAddress":"orders-api","secureVipAddress":"orders-api","status":"UP",
    "port":{"$":9707,"@enabled":"true"},"securePort":{"$":0,"@enabled":"false"},
    "dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},
    "leaseInfo":{"durationInSecs":30},"metadata":{"zone":"z"}}}"#;

/// Helidon: the other class, flags that are no texts, times that are numbers.
const HELIDON_BODY: &str = r#"{"instance":{"instanceId":"jvm.local:9708","hostName":"jvm.local","app":"HELIDON",
    "ipAddr":"127.0.0.1","vipAddress":"helidon","secureVipAddress":"helidon","status":"UP",
    "port":{"$":9708,"@enabled":true},"securePort":{"$":0,"@enabled":false},
    "dataCenterInfo":{"@class":"com.netflix.appinfo.MyDataCenterInfo","name":"MyOwn"},
    "leaseInfo":{"renewalIntervalInSecs":1,"durationInSecs":30},"metadata":{},
    "lastUpdatedTimestamp":1796004000000,"lastDirtyTimestamp":1796004000000}}"#;

/// The crate eureka-client: starting, no id, null for whatever is not set.
const CRATE_BODY: &str = r#"{"instance":{"hostName":"rs.local","app":"CRATE","ipAddr":"127.0.0.1","vipAddress":"crate",
    "secureVipAddress":"crate","status":"STARTING","port":{"$":9709,"@enabled":"true"},
    "securePort":{"$":443,"@enabled":"false"},"homePageUrl":"http://rs.local:9709/",
    "statusPageUrl":"http://rs.local:9709/info","healthCheckUrl":"http://rs.local:9709/health",
    "dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn","metadata":null},
    "leaseInfo":{"evictionDurationInSecs":30},"metadata":null}}"#;

/// The crate rust-eureka: Amazon's name with the class of the others, and no id.
const RUSTY_BODY: &str = "<instance><hostName>rs.local</hostName><app>RUSTY</app><ipAddr>127.0.0.1</ipAddr>\
    <vipAddress>rusty</vipAddress><status>UP</status><port enabled=\"true\">9710</port>\
    <dataCenterInfo class=\"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo\"><name>Amazon</name></dataCenterInfo>\
    <leaseInfo><evictionDurationInSecs>30</evictionDurationInSecs></leaseInfo></instance>";

pub(super) const CLIENTS: &[Client] = &[
    Client {
        name: "ArthurHlt",
        app: "ARTHUR",
        id: "go.local",
        joins: &[post("/eureka/apps/ARTHUR", ARTHUR, ARTHUR_BODY)],
        beat: Some(ask("PUT", "/eureka/apps/ARTHUR/go.local", ARTHUR, 200)),
        looks: &[Look {
            path: "/eureka/apps",
            headers: ARTHUR,
            kind: XML,
            reader: xml::read_as_prometheus,
            sees: Sees::Everything,
        }],
        leaves: &[ask("DELETE", "/eureka/apps/ARTHUR/go.local", ARTHUR, 200)],
    },
    Client {
        name: "xuanbo",
        app: "XUANBO-APP",
        id: "127.0.0.1:xuanbo-app:9702",
        joins: &[
            ask("PUT", "/eureka/apps/xuanbo-app/127.0.0.1:xuanbo-app:9702?status=UP", NONE, 404),
            post("/eureka/apps/xuanbo-app", SENDS_JSON, XUANBO_BODY),
        ],
        beat: Some(ask("PUT", "/eureka/apps/xuanbo-app/127.0.0.1:xuanbo-app:9702?status=UP", NONE, 200)),
        looks: &[look("/eureka/apps", ASKS_JSON, go::read_as_xuanbo, Sees::Everything)],
        leaves: &[ask("DELETE", "/eureka/apps/xuanbo-app/127.0.0.1:xuanbo-app:9702", NONE, 200)],
    },
    Client {
        name: "HikoQiu",
        app: "HIKO",
        id: "go.local:HIKO:9703",
        joins: &[
            post("/eureka/apps/HIKO", HIKO, HIKO_BODY),
            ask("PUT", "/eureka/apps/HIKO/go.local:HIKO:9703/status?value=UP", HIKO, 200),
        ],
        beat: Some(ask("PUT", "/eureka/apps/HIKO/go.local:HIKO:9703", HIKO, 200)),
        looks: &[
            look("/eureka/apps", HIKO, go::read_as_fargo, Sees::Everything),
            look("/eureka/vips/hiko", HIKO, go::read_as_fargo, Sees::Itself),
        ],
        leaves: &[ask("DELETE", "/eureka/apps/HIKO/go.local:HIKO:9703", HIKO, 200)],
    },
    Client {
        name: "st3v",
        app: "ST3V",
        id: "st3v-1",
        joins: &[
            post("/eureka/apps/ST3V", SENDS_XML, ST3V_BODY),
            ask("PUT", "/eureka/apps/ST3V/st3v-1/status?value=OUT_OF_SERVICE", NONE, 200),
            ask("DELETE", "/eureka/apps/ST3V/st3v-1/status?value=UP", NONE, 200),
        ],
        beat: Some(ask("PUT", "/eureka/apps/ST3V/st3v-1", NONE, 200)),
        looks: &[Look {
            path: "/eureka/apps",
            headers: ASKS_XML,
            kind: XML,
            reader: xml::read_as_prometheus,
            sees: Sees::Everything,
        }],
        leaves: &[ask("DELETE", "/eureka/apps/ST3V/st3v-1", NONE, 200)],
    },
    Client {
        name: "Steeltoe 4",
        app: "STEEL",
        id: "net.local:steel app:9705",
        joins: &[post("/eureka/apps/STEEL", STEELTOE_SENDS, STEELTOE_BODY)],
        beat: Some(ask(
            "PUT",
            "/eureka/apps/STEEL/net.local%3Asteel%20app%3A9705?lastDirtyTimestamp=1796004000000",
            STEELTOE,
            200,
        )),
        looks: &[
            look("/eureka/apps", STEELTOE, steeltoe::read, Sees::Everything),
            look("/eureka/apps/delta", STEELTOE, steeltoe::read, Sees::Everything),
            look("/eureka/vips/steel", STEELTOE, steeltoe::read, Sees::Itself),
        ],
        leaves: &[ask("DELETE", "/eureka/apps/STEEL/net.local%3Asteel%20app%3A9705", STEELTOE, 200)],
    },
    Client {
        name: "Steeltoe 2 and 3",
        app: "OLDSTEEL",
        id: "net.local:oldsteel:9706",
        joins: &[post("/eureka/apps/OLDSTEEL", SENDS_JSON, OLD_STEELTOE_BODY)],
        beat: Some(ask(
            "PUT",
            "/eureka/apps/OLDSTEEL/net.local:oldsteel:9706?status=UP&lastDirtyTimestamp=1796004000000",
            ASKS_JSON,
            200,
        )),
        looks: &[
            look("/eureka/apps/", ASKS_JSON, steeltoe::read, Sees::Everything),
            look("/eureka/apps/delta", ASKS_JSON, steeltoe::read, Sees::Everything),
        ],
        leaves: &[ask("DELETE", "/eureka/apps/OLDSTEEL/net.local:oldsteel:9706", ASKS_JSON, 200)],
    },
    Client {
        name: "Micronaut",
        app: "ORDERS-API",
        id: "jvm.local:orders-api:9707",
        joins: &[post("/eureka/apps/orders-api", SENDS_JSON, MICRONAUT_BODY)],
        beat: Some(ask("PUT", "/eureka/apps/orders-api/jvm.local:orders-api:9707", ASKS_JSON, 200)),
        looks: &[
            look("/eureka/apps", ASKS_JSON, micronaut, Sees::Everything),
            look("/eureka/apps/orders-api", ASKS_JSON, micronaut, Sees::Itself),
        ],
        leaves: &[ask("DELETE", "/eureka/apps/orders-api/jvm.local:orders-api:9707", ASKS_JSON, 200)],
    },
    Client {
        name: "Helidon",
        app: "HELIDON",
        id: "jvm.local:9708",
        joins: &[post("/eureka/v2/apps/HELIDON", SENDS_JSON, HELIDON_BODY)],
        beat: Some(ask("PUT", "/eureka/v2/apps/HELIDON/jvm.local:9708?status=UP", ASKS_JSON, 200)),
        looks: &[],
        leaves: &[ask("DELETE", "/eureka/v2/apps/HELIDON/jvm.local:9708", ASKS_JSON, 200)],
    },
    Client {
        name: "the crate eureka-client",
        app: "CRATE",
        id: "rs.local",
        joins: &[
            post("/eureka/apps/CRATE", SENDS_JSON, CRATE_BODY),
            ask("PUT", "/eureka/apps/CRATE/rs.local/status?value=UP", NONE, 200),
        ],
        beat: Some(ask("PUT", "/eureka/apps/CRATE/rs.local", NONE, 200)),
        looks: &[look("/eureka/apps", ASKS_JSON, rust, Sees::Everything)],
        leaves: &[ask("DELETE", "/eureka/apps/CRATE/rs.local", NONE, 200)],
    },
    Client {
        name: "the crate rust-eureka",
        app: "RUSTY",
        id: "rs.local",
        joins: &[
            post("/eureka/apps/RUSTY", SENDS_XML, RUSTY_BODY),
            post("/v2/apps/RUSTY", SENDS_XML, RUSTY_BODY),
        ],
        beat: Some(ask("PUT", "/v2/apps/RUSTY/rs.local", NONE, 200)),
        looks: &[],
        leaves: &[ask("DELETE", "/eureka/v2/apps/RUSTY/rs.local", NONE, 200)],
    },
];
