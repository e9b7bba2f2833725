//! Faults that came up when genuine servers and ours were asked the same.

use crate::support::{Draft, Server};

/// A body in XML with one element in the place of `mark`.
fn xml(id: &str, mark: &str, instead: &str) -> String {
    let body = format!(
        "<instance><instanceId>{id}</instanceId><hostName>h1.example</hostName><app>XML</app>\
         <ipAddr>10.0.0.1</ipAddr><status>UP</status><port enabled=\"true\">8080</port>\
         <securePort enabled=\"false\">8443</securePort><dataCenterInfo><name>MyOwn</name></dataCenterInfo></instance>"
    );
    assert!(body.contains(mark));
    body.replace(mark, instead)
}

#[tokio::test]
async fn a_status_call_lifts_an_owner_that_is_unknown() {
    for value in ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE"] {
        let server = Server::new();
        server.register(&Draft::new("A", "1", "NONSENSE", 1)).await;
        server.beat("A", "1", "").await.assert_quiet(404);
        server.put(&format!("/A/1/status?value={value}")).await.assert_quiet(200);
        assert_eq!(server.status("A", "1").await, value);
        server.beat("A", "1", "").await.assert_quiet(200);
    }
}

#[tokio::test]
async fn an_empty_flag_of_a_port_in_xml_is_none() {
    let server = Server::new();
    for (id, mark, flag) in
        [("1", "<port enabled=\"true\">", ""), ("2", "<securePort enabled=\"false\">", " ")]
    {
        let element = mark.split_once(' ').unwrap().0;
        let body = xml(id, mark, &format!("{element} enabled=\"{flag}\">"));
        server.post_xml("XML", &body).await.assert_quiet(204);
        let found = server.instance("XML", id).await;
        assert_eq!(found["port"]["@enabled"], "true", "{body}");
        assert_eq!(found["securePort"]["@enabled"], "false", "{body}");
    }
}

#[tokio::test]
async fn in_xml_the_name_alone_decides_what_a_data_center_is() {
    let server = Server::new();
    let center = |class: &str, name: &str| {
        format!(
            "<dataCenterInfo class=\"com.netflix.appinfo.{class}\"><name>{name}</name>\
             <metadata><ami-id>a</ami-id></metadata></dataCenterInfo>"
        )
    };
    let plain = "<dataCenterInfo><name>MyOwn</name></dataCenterInfo>";
    for (id, class, name) in
        [("1", "AmazonInfo", "MyOwn"), ("2", "InstanceInfo$DefaultDataCenterInfo", "Amazon")]
    {
        server.post_xml("XML", &xml(id, plain, &center(class, name))).await.assert_quiet(204);
        let found = server.instance("XML", id).await;
        assert_eq!(found["dataCenterInfo"]["name"], name);
        assert_eq!(found["dataCenterInfo"].get("metadata").is_some(), name == "Amazon");
    }
}

#[tokio::test]
async fn a_document_in_xml_is_read_in_the_encoding_that_it_declares() {
    let server = Server::new();
    let plain = xml("1", "h1.example", "h\u{e9}")
        .replace("<status>UP", "<vipAddress>\u{c3}\u{a9}</vipAddress><status>UP");
    let latin = |text: &str| text.chars().map(|letter| u8::try_from(letter).unwrap()).collect::<Vec<u8>>();
    let headers = [("content-type", "application/xml")];
    for encoding in ["\"ISO-8859-1\"", "\"iso-8859-1\"", "'ISO-8859-1'"] {
        let body = format!("<?xml version=\"1.0\" encoding={encoding}?>{plain}");
        server.send("POST", "/eureka/apps/XML", &headers, latin(&body)).await.assert_quiet(204);
        let found = server.instance("XML", "1").await;
        assert_eq!((&found["hostName"], &found["vipAddress"]), (&"h\u{e9}".into(), &"\u{c3}\u{a9}".into()));
        server.delete("/XML/1").await.assert_quiet(200);
    }
    for start in [
        "",
        "<?xml version=\"1.0\"?>",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"ISO-8859-15\"?>",
        "<!-- ISO-8859-1 -->",
    ] {
        let answer =
            server.send("POST", "/eureka/apps/XML", &headers, latin(&format!("{start}{plain}"))).await;
        assert_eq!(answer.status.as_u16(), 400, "{start}");
        assert!(answer.text().contains("not UTF-8"), "{start}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_peer_that_tells_the_status_that_is_shown_sets_no_override() {
    let server = Server::trusting();
    server.register(&Draft::new("A", "1", "UP", 1)).await;
    let item = |value: &str| {
        format!(
            r#"{{"replicationList":[{{"appName":"A","id":"1","action":"StatusUpdate","status":"{value}"}}]}}"#
        )
    };
    let headers = [("content-type", "application/json")];
    for (told, held) in [("UP", "UNKNOWN"), ("OUT_OF_SERVICE", "OUT_OF_SERVICE"), ("UP", "UP")] {
        let answer = server.send("POST", "/eureka/peerreplication/batch", &headers, item(told)).await;
        assert_eq!(answer.json()["responseList"][0]["statusCode"], 200);
        let found = server.instance("A", "1").await;
        assert_eq!((&found["status"], &found["overriddenStatus"]), (&told.into(), &held.into()));
    }
}

#[tokio::test]
async fn a_status_call_of_what_is_shown_sets_no_override() {
    for status in ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE"] {
        let server = Server::new();
        server.register(&Draft::new("A", "1", status, 1)).await;
        server.put(&format!("/A/1/status?value={status}")).await.assert_quiet(200);
        let found = server.instance("A", "1").await;
        assert_eq!((&found["status"], &found["overriddenStatus"]), (&status.into(), &"UNKNOWN".into()));
    }
}
