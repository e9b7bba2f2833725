//! The neighbours of the collected cases: each report was one input of a family.

use std::collections::BTreeSet;

use axum::body::Body;
use serde_json::{Value, json};

use crate::documents::Element;
use crate::field_cases::assert_readable;
use crate::support::{DATA_CENTER, Draft, Server};

/// A body in XML with these elements behind what has to be there.
fn xml(app: &str, elements: &str) -> String {
    format!(
        "<instance><app>{app}</app><hostName>h1</hostName><ipAddr>10.0.0.1</ipAddr>\
         <dataCenterInfo><name>MyOwn</name></dataCenterInfo>{elements}</instance>"
    )
}

/// The same in JSON; the members have leading commas.
fn json(app: &str, members: &str) -> String {
    format!(r#"{{"instance":{{"app":"{app}","hostName":"h1","ipAddr":"10.0.0.1",{DATA_CENTER}{members}}}}}"#)
}

/// The only instance of an application.
async fn only(server: &Server, app: &str) -> Value {
    let mut found = server.json(&format!("/{app}")).await["application"]["instance"].take();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    found[0].take()
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn f01_an_element_without_content_never_breaks_a_read() {
    let server = Server::new();
    let members = [
        "instanceId",
        "sid",
        "status",
        "overriddenstatus",
        "countryId",
        "port",
        "securePort",
        "leaseInfo",
        "metadata",
        "appGroupName",
        "homePageUrl",
        "vipAddress",
        "secureVipAddress",
        "isCoordinatingDiscoveryServer",
        "lastUpdatedTimestamp",
        "lastDirtyTimestamp",
        "actionType",
        "asgName",
        "somethingNew",
    ];
    for member in members {
        for content in ["", " ", "\n", "<![CDATA[]]>", "<!-- none -->", "<a/>", "null"] {
            let element = format!("<{member} class=\"x\">{content}</{member}>");
            let answer = server.post_xml("XML", &xml("XML", &element)).await;
            if answer.status != 204 {
                assert_eq!(answer.status, 400, "{element}");
                assert!(answer.text().contains(member), "{element}: {}", answer.text());
                assert_eq!(server.registry.stats().instances, 0, "{element}");
                continue;
            }
            let id = only(&server, "XML").await["instanceId"].as_str().unwrap().to_owned();
            assert_readable(&server, "XML", &encoded(&id)).await;
            server.delete(&format!("/XML/{}", encoded(&id))).await.assert_quiet(200);
        }
    }
}

#[tokio::test]
async fn f03_ports_in_xml_are_taken_in_every_spelling() {
    let server = Server::new();
    // What stands behind the element's name; a flag that is not told is the original's.
    for (spelling, flag) in [
        (">8080</", None),
        ("> 8080\n</", None),
        (">+8080.0</", None),
        ("><![CDATA[8080]]></", None),
        ("><!-- a -->80&#56;0</", None),
        (" Enabled=\"true\" x:enabled=\"true\">8080</", None),
        (" enabled='TRUE'>8080</", Some("true")),
        (" class=\"x\"\n enabled = \" false \" >8080</", Some("false")),
        (" enabled=\"&#116;rue\">8080</", Some("true")),
    ] {
        for (member, default) in [("port", "true"), ("securePort", "false")] {
            let element = format!("<{member}{spelling}{member}>");
            server.post_xml("XML", &xml("XML", &element)).await.assert_quiet(204);
            let expected = json!({"$": 8080, "@enabled": flag.unwrap_or(default)});
            assert_eq!(only(&server, "XML").await[member], expected, "{element}");
            server.delete("/XML/h1").await.assert_quiet(200);
        }
    }
    for (element, reason) in [
        ("<port/>", "port: expected a port number"),
        ("<port>-1</port>", "port: -1 is outside 0 to 65535"),
        ("<port>80.5</port>", "port: expected a whole number"),
        ("<port><$>80</$></port>", "port: expected a text, not elements"),
        ("<port enabled=\"yes\">80</port>", "port.@enabled: expected true or false"),
        ("<port enabled=\"&none;\">80</port>", "cannot parse request body: "),
        ("<port enabled=true>80</port>", "cannot parse request body: "),
    ] {
        let answer = server.post_xml("XML", &xml("XML", element)).await;
        assert_eq!(answer.status, 400, "{element}");
        assert!(answer.text().starts_with(reason), "{element}: {}", answer.text());
    }
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn f05_a_lease_is_as_long_as_any_spelling_says_or_the_usual_90_seconds() {
    let server = Server::new();
    for (told, seconds) in [
        ("0", 90),
        ("-1", 90),
        ("null", 90),
        (r#""""#, 90),
        (r#"" ""#, 90),
        ("0.5", 90),
        ("1", 1),
        (r#"" 7 ""#, 7),
        ("7.9", 7),
        (r#""7.9""#, 7),
        ("7e1", 70),
        ("86401", 86_400),
        ("2147483648", 86_400),
        ("5,\"durationInSecs\":6", 6),
        (r#"5,"evictionDurationInSecs":9,"registrationTimestamp":{},"lastRenewalTimestamp":"x""#, 5),
    ] {
        let members = format!(r#","leaseInfo":{{"durationInSecs":{told}}}"#);
        server.post("L", &json("L", &members)).await.assert_quiet(204);
        assert_eq!(only(&server, "L").await["leaseInfo"]["durationInSecs"], seconds, "{told}");
    }
    for (told, seconds) in [
        ("<leaseInfo/>", 90),
        ("<leaseInfo><durationInSecs/></leaseInfo>", 90),
        ("<leaseInfo>\n <durationInSecs> 7.9\n</durationInSecs>\n</leaseInfo>", 7),
        (
            "<leaseInfo><evictionTimestamp>x</evictionTimestamp><durationInSecs>7</durationInSecs></leaseInfo>",
            7,
        ),
    ] {
        server.post_xml("L", &xml("L", told)).await.assert_quiet(204);
        assert_eq!(only(&server, "L").await["leaseInfo"]["durationInSecs"], seconds, "{told}");
    }
}

#[tokio::test]
async fn f09_an_id_is_what_was_sent_or_derived_from_what_tells_instances_apart() {
    let server = Server::new();
    let amazon =
        |id: &str| format!(r#","dataCenterInfo":{{"name":"Amazon","metadata":{{"instance-id":{id}}}}}"#);
    let angel = |id: &str| format!(r#","metadata":{{"instanceId":{id}}}"#);
    let told = |id: &str| format!(r#","instanceId":{id}"#);
    for (members, id) in [
        (told("null"), "h1"),
        (told(r#""""#), "h1"),
        (told("1.50"), "1.50"),
        (told("true"), "true"),
        (told(r#"" a ""#), " a "),
        (amazon(r#""i-1""#), "i-1"),
        (amazon("null"), "h1"),
        (amazon(r#""""#), "h1"),
        (angel(r#""abc""#), "h1:abc"),
        (angel(r#""h1:abc""#), "h1:abc"),
        (angel("7"), "h1:7"),
        (angel(r#"" ""#), "h1"),
        (angel("null"), "h1"),
        (told(r#""z""#) + &angel(r#""abc""#) + &amazon(r#""i-1""#), "z"),
    ] {
        server.post("IDS", &json("IDS", &members)).await.assert_quiet(204);
        assert_eq!(only(&server, "IDS").await["instanceId"], id, "{members}");
        server.delete(&format!("/IDS/{}", encoded(id))).await.assert_quiet(200);
    }
    for (elements, id) in [
        ("<instanceId/>", "h1"),
        ("<InstanceId>a</InstanceId>", "h1"),
        ("<instanceId> a&amp;b </instanceId>", " a&b "),
        ("<metadata><instanceId>abc</instanceId></metadata>", "h1"),
    ] {
        server.post_xml("IDS", &xml("IDS", elements)).await.assert_quiet(204);
        assert_eq!(only(&server, "IDS").await["instanceId"], id, "{elements}");
        server.delete(&format!("/IDS/{}", encoded(id))).await.assert_quiet(200);
    }
}

#[tokio::test]
async fn f10_each_name_of_an_address_list_finds_the_instance_and_nothing_else_does() {
    let server = Server::new();
    for (list, names) in [
        ("red", vec!["red"]),
        (" red ,blue ", vec!["red", "blue"]),
        (",red,,red,", vec!["red"]),
        ("RED,red", vec!["RED", "red"]),
        ("red blue", vec!["red blue"]),
        ("red;blue", vec!["red;blue"]),
        ("a/b,é", vec!["a/b", "é"]),
        (",", vec![]),
        (" ", vec![]),
    ] {
        let members = format!(r#","vipAddress":"{list}","secureVipAddress":"{list}""#);
        server.post("V", &json("V", &members)).await.assert_quiet(204);
        for asked in ["red", "blue", "RED", "red blue", "red;blue", "a/b", "é", " ", ",", "red,blue", "*"] {
            for kind in ["vips", "svips"] {
                let path = format!("/eureka/{kind}/{}", encoded(asked));
                let answer = server.send("GET", &path, &[("accept", "application/json")], "").await;
                assert_eq!(answer.status, 200, "{path}");
                let found = answer.json()["applications"]["application"].as_array().unwrap().len();
                assert_eq!(found == 1, names.contains(&asked), "{list:?} {path}");
            }
        }
    }
}

/// Members that are kept as texts.
const TEXTS: [&str; 13] = [
    "instanceId",
    "hostName",
    "ipAddr",
    "sid",
    "appGroupName",
    "homePageUrl",
    "statusPageUrl",
    "healthCheckUrl",
    "secureHealthCheckUrl",
    "vipAddress",
    "secureVipAddress",
    "asgName",
    "metadata",
];

/// The text as a JSON string in which everything is escaped, by halves of surrogate pairs where it must.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
}

/// A registration in which this text stands in one member.
fn holding(member: &str, text: &str) -> String {
    let own =
        |name: &str, usual: &str| format!(r#""{name}":"{}""#, if name == member { text } else { usual });
    let rest = match member {
        "hostName" | "ipAddr" | "instanceId" => String::new(),
        "metadata" => format!(r#","metadata":{{"{text}":"{text}"}}"#),
        other => format!(r#","{other}":"{text}""#),
    };
    format!(
        r#"{{"instance":{{"app":"UNI",{},{},{},{DATA_CENTER}{rest}}}}}"#,
        own("hostName", "h"),
        own("ipAddr", "1"),
        own("instanceId", "u"),
    )
}

#[tokio::test]
async fn f11_every_member_holds_every_script_however_it_is_spelt() {
    let server = Server::new();
    // With combining signs, without any in upper case, since groups are told in it.
    let text = "東京🚀 שלום \u{301}\u{200b}\u{2028}\u{feff}\u{10ffff}";
    for member in TEXTS {
        let own = if member == "metadata" { json!({ (text): text }) } else { json!(text) };
        for spelt in [text.to_owned(), escaped(text)] {
            server.post("UNI", &holding(member, &spelt)).await.assert_quiet(204);
            let one = only(&server, "UNI").await;
            assert_eq!(one[member], own, "{spelt}");
            let delta = server.json("/delta").await;
            assert_eq!(delta["applications"]["application"][0]["instance"][0][member], own);
            let id = encoded(one["instanceId"].as_str().unwrap());
            let shown = server.get_xml(&format!("/UNI/{id}")).await;
            let root = Element::parse(shown.text()).unwrap();
            let place = root.child(member).unwrap();
            assert_eq!(place.children.first().unwrap_or(place).text, text, "{member}");
            server.delete(&format!("/UNI/{id}")).await.assert_quiet(200);
            server.post_xml("UNI", shown.text()).await.assert_quiet(204);
            assert_eq!(only(&server, "UNI").await[member], own, "back from XML");
            server.beat("UNI", &id, "").await.assert_quiet(200);
            server.delete(&format!("/UNI/{id}")).await.assert_quiet(200);
        }
    }
}

#[tokio::test]
async fn f11_what_is_no_text_or_no_name_is_refused_by_its_member() {
    let server = Server::new();
    for member in TEXTS {
        for half in ["\\ud800", "\\udc00", "\\uD83Dx", "\\ude80\\ud83d"] {
            let answer = server.post("UNI", &holding(member, half)).await;
            assert_eq!(answer.status, 400, "{member} {half}");
            assert!(answer.text().contains(member), "{member}: {}", answer.text());
        }
        for control in ["\\u0000", "\\n", "\\u001f", "\\u007f", "\\u0085"] {
            let answer = server.post("UNI", &holding(member, &format!("a{control}"))).await;
            let is_name =
                ["instanceId", "hostName", "ipAddr", "appGroupName", "vipAddress", "secureVipAddress"];
            if is_name.contains(&member) {
                assert_eq!(answer.text(), format!("{member}: holds a control character"));
                assert_eq!(answer.status, 400);
            } else {
                answer.assert_quiet(204);
                assert_readable(&server, "UNI", "u").await;
                Element::parse(server.get_xml("").await.text()).unwrap();
                server.delete("/UNI/u").await.assert_quiet(200);
            }
        }
    }
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn f11_bodies_are_utf_8_with_or_without_a_mark_or_xml_that_declares_another_encoding() {
    let server = Server::new();
    let (json, xml) = (json("UNI", r#","sid":"é""#), xml("UNI", "<sid>é</sid>"));
    let declared = |encoding: &str| format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?>{xml}");
    let latin = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let mark = |text: &str| [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat();
    let sent = async |kind: &str, body: Vec<u8>| {
        let headers = [("content-type", kind)];
        server.send("POST", "/eureka/apps/UNI", &headers, body).await
    };
    for (kind, body) in [
        ("application/json", mark(&json)),
        ("application/xml", mark(&xml)),
        ("application/xml", mark(&declared("UTF-8"))),
        ("application/xml", latin(&declared("ISO-8859-1"))),
        ("application/json;charset=iso-8859-1", json.clone().into_bytes()),
    ] {
        sent(kind, body).await.assert_quiet(204);
        assert_eq!(only(&server, "UNI").await["sid"], "é");
        server.delete("/UNI/h1").await.assert_quiet(200);
    }
    let overlong = json.replace('é', "X").into_bytes();
    let overlong = overlong
        .iter()
        .flat_map(|byte| if *byte == b'X' { &b"\xc1\x98"[..] } else { std::slice::from_ref(byte) });
    for (kind, body) in [
        ("application/json", latin(&json)),
        ("application/xml", latin(&declared("UTF-8"))),
        ("application/xml", latin(&xml)),
        ("application/json", overlong.copied().collect()),
        ("application/json", mark(std::str::from_utf8(&mark(&json)).unwrap())),
    ] {
        let answer = sent(kind, body).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().starts_with("cannot parse request body: "), "{}", answer.text());
    }
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn f14_the_application_of_the_body_is_that_of_the_path_whatever_its_letters() {
    let server = Server::new();
    let register = async |path: &str, app: &str| {
        let body = format!(r#"{{"instance":{{"hostName":"h1","ipAddr":"1",{DATA_CENTER}{app}}}}}"#);
        server.post(path, &body).await
    };
    for (path, app, name) in [
        ("orders", r#""OrDeRs""#, "ORDERS"),
        ("%6frder%53", r#""orders""#, "ORDERS"),
        ("a%2Fb", r#""a/b""#, "A/B"),
        ("a+b", r#""A+b""#, "A+B"),
        ("a%20b", r#""a b""#, "A B"),
        ("%C3%A9", r#""é""#, "É"),
        ("%D1%84", r#""\u0444""#, "Ф"),
        ("stra%C3%9Fe", r#""STRASSE""#, "STRASSE"),
        ("%CF%82", r#""Σ""#, "Σ"),
        ("..", r#""..""#, ".."),
        ("123", "123", "123"),
        ("true", "true", "TRUE"),
    ] {
        register(path, &format!(r#","app":{app}"#)).await.assert_quiet(204);
        assert_eq!(server.json("").await["applications"]["application"][0]["name"], name, "{path} {app}");
        for spelt in [path.to_owned(), encoded(name), encoded(&name.to_lowercase())] {
            server.beat(&spelt, "h1", "").await.assert_quiet(200);
        }
        server.delete(&format!("/{path}/h1")).await.assert_quiet(200);
    }
    let long = "y".repeat(100_000);
    for (app, reason) in [
        (String::new(), "Missing appName".to_owned()),
        (r#","app":null"#.into(), "Missing appName".into()),
        (r#","app":"""#.into(), "Missing appName".into()),
        (r#","app":["ORDERS"]"#.into(), "app: expected a single value".into()),
        (r#","app":" ORDERS""#.into(), "Mismatched appName, expecting ORDERS but was  ORDERS".into()),
        (r#","app":"payments""#.into(), "Mismatched appName, expecting ORDERS but was PAYMENTS".into()),
        // One line of bounded length, whatever is told back.
        (
            r#","app":"a\r\nb\u0000""#.into(),
            "Mismatched appName, expecting ORDERS but was A\u{fffd}\u{fffd}B\u{fffd}".into(),
        ),
        (
            format!(r#","app":"{long}""#),
            format!("Mismatched appName, expecting ORDERS but was {}", &long.to_uppercase()[..256]),
        ),
    ] {
        let answer = register("orders", &app).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (400, reason.as_str()));
    }
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn f19_a_verb_that_is_not_served_is_told_which_are() {
    let server = Server::new();
    server.register(&Draft::new("A", "1", "UP", 1)).await;
    let head = server.registry.head();
    let all = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"];
    for (path, allowed) in [
        ("apps", "GET, HEAD, OPTIONS"),
        ("apps/delta", "GET, HEAD, OPTIONS"),
        ("apps/A", "GET, HEAD, OPTIONS, POST"),
        ("apps/A/1", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("apps/A/1/status", "DELETE, OPTIONS, PUT"),
        ("apps/A/1/metadata", "OPTIONS, PUT"),
        ("instances/1", "GET, HEAD, OPTIONS"),
        ("vips/A", "GET, HEAD, OPTIONS"),
        ("svips/A", "GET, HEAD, OPTIONS"),
        ("peerreplication/batch", "OPTIONS, POST"),
    ] {
        let served: BTreeSet<&str> = allowed.split(", ").collect();
        for verb in all.into_iter().filter(|verb| !served.contains(verb)) {
            for (accept, body) in [("application/json", "{}"), ("text/html", "")] {
                let headers = [("accept", accept), ("content-type", "application/json")];
                let answer = server.send(verb, &format!("/eureka/{path}"), &headers, body).await;
                answer.assert_quiet(405);
                assert_eq!(answer.header("allow"), Some(allowed), "{verb} {path}");
            }
        }
        let answer = server.send("OPTIONS", &format!("/eureka/{path}"), &[], "").await;
        answer.assert_quiet(200);
        assert_eq!(answer.header("allow"), Some(allowed), "{path}");
    }
    assert_eq!(server.registry.head(), head, "none of them did anything");
}

#[tokio::test]
async fn f40_the_end_of_an_override_with_and_without_a_word_for_what_follows() {
    for owner in ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE"] {
        let other = if owner == "OUT_OF_SERVICE" { "DOWN" } else { "OUT_OF_SERVICE" };
        // What an override cannot lift is changed by the call that sets it.
        let left = if matches!(owner, "DOWN" | "STARTING") { other } else { owner };
        for (rest, shown) in [
            ("", left),
            ("?value=UNKNOWN", left),
            ("?value=UP", "UP"),
            ("?value=STARTING", "STARTING"),
            ("?value=DOWN&value=UP", "DOWN"),
            ("?value=%55P&lastDirtyTimestamp=99999999999999", "UP"),
            ("?value=DOWN&lastDirtyTimestamp=-1", "DOWN"),
        ] {
            let server = Server::new();
            server.register(&Draft::new("OV", "o1", owner, 100)).await;
            // Without an override there is nothing to end, and nothing follows.
            server.delete(&format!("/OV/o1/status{rest}")).await.assert_quiet(200);
            assert_eq!(server.status("OV", "o1").await, owner, "{rest}");
            server.put(&format!("/OV/o1/status?value={other}")).await.assert_quiet(200);
            for junk in
                ["?value=", "?value", "?value=up", "?value=DRAINING", "?value=%ff", "?lastDirtyTimestamp=x"]
            {
                assert_eq!(server.delete(&format!("/OV/o1/status{junk}")).await.status, 400, "{junk}");
                assert_eq!(server.instance("OV", "o1").await["overriddenStatus"], other, "{junk}");
            }
            server.delete(&format!("/OV/o1/status{rest}")).await.assert_quiet(200);
            let one = server.instance("OV", "o1").await;
            assert_eq!(
                (&one["status"], &one["overriddenStatus"]),
                (&json!(shown), &json!("UNKNOWN")),
                "{owner} {rest}"
            );
            assert_eq!(one["lastDirtyTimestamp"], "100");
            server.beat("OV", "o1", "?status=UP&lastDirtyTimestamp=100").await.assert_quiet(200);
            let list = server
                .send("GET", "/eureka/apps/delta", &[("accept", "application/json")], Body::empty())
                .await;
            assert_eq!(list.json()["applications"]["apps__hashcode"], format!("{shown}_1_"));
        }
    }
}

#[tokio::test]
async fn f67_which_port_is_enabled_is_told_as_it_was_sent() {
    let server = Server::new();
    for plain in ["true", "false"] {
        for secure in ["true", "false"] {
            let members = format!(
                r#","port":{{"$":8080,"@enabled":{plain}}},"securePort":{{"$":8443,"@enabled":"{secure}"}},
                "vipAddress":"v","secureVipAddress":"s","homePageUrl":"https://h1:8443/""#
            );
            server.post("SEC", &json("SEC", &members)).await.assert_quiet(204);
            // Once more with what the XML says.
            for _ in 0..2 {
                let one = only(&server, "SEC").await;
                assert_eq!(one["port"], json!({"$": 8080, "@enabled": plain}));
                assert_eq!(one["securePort"], json!({"$": 8443, "@enabled": secure}));
                assert_eq!(one["homePageUrl"], "https://h1:8443/");
                let document = server.get_xml("/SEC/h1").await;
                let root = Element::parse(document.text()).unwrap();
                let flag = |member| root.child(member).unwrap().attribute("enabled");
                assert_eq!((flag("port"), flag("securePort")), (Some(plain), Some(secure)));
                server.delete("/SEC/h1").await.assert_quiet(200);
                server.post_xml("SEC", document.text()).await.assert_quiet(204);
            }
            // An address is one, whether its port is enabled or not.
            for (path, found) in [("vips/v", 1), ("svips/s", 1), ("vips/s", 0), ("svips/v", 0)] {
                let path = format!("/eureka/{path}");
                let answer = server.send("GET", &path, &[("accept", "application/json")], "").await;
                let list = answer.json()["applications"]["application"].as_array().unwrap().len();
                assert_eq!(list, found, "{path}");
            }
        }
    }
}
