use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

#[path = "../../tests/support/authority.rs"]
mod authority;

use authority::{Authority, Files as Paths, Issued, der, text};

fn config(paths: &Paths) -> TlsConfig {
    TlsConfig { certificate: text(&paths.certificate()), key: text(&paths.key()), ca: text(&paths.ca()) }
}

/// What a server shows to a new connection that believes this authority.
async fn shown(tls: &Tls, authority: &Authority) -> Vec<u8> {
    let (near, far) = duplex(64 << 10);
    let accepting = tls.acceptor().unwrap();
    let accepted = tokio::spawn(async move { accepting.accept(far).await.is_ok() });
    let connector = tokio_rustls::TlsConnector::from(authority.believed(&[]));
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let secure = connector.connect(name, near).await.unwrap();
    assert!(accepted.await.unwrap());
    secure.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn problem(contents: &[&str]) -> String {
    let contents: Vec<Vec<u8>> = contents.iter().map(|text| text.as_bytes().to_vec()).collect();
    pem::server(&contents).err().unwrap()
}

#[test]
fn what_is_wrong_with_files_is_told_with_the_setting_and_without_the_key() {
    let authority = Authority::new();
    let (one, other) = (authority.issue(), authority.issue());
    let encrypted = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let headed =
        one.key.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1);
    let cut = &one.key[..one.key.len() / 2];
    let spoilt = one.key.replacen('A', "?", 1);
    let damaged = one.certificate.replacen("MI", "MA", 1);
    let table = [
        ("", one.key.as_str(), "tls.certificate: the file holds no certificate"),
        (&one.key, &one.key, "tls.certificate: the file holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\n", &one.key, "tls.certificate: the file is no well-formed PEM"),
        (&damaged, &one.key, "tls.certificate: "),
        (&one.certificate, "", "tls.key: the file holds no private key"),
        (&one.certificate, &one.certificate, "tls.key: the file holds no private key"),
        (&one.certificate, &encrypted, "tls.key: the private key is encrypted"),
        (&one.certificate, &headed, "tls.key: the private key is encrypted"),
        (&one.certificate, cut, "tls.key: the file is no well-formed PEM"),
        (&one.certificate, &spoilt, "tls.key: "),
        (&one.certificate, &other.key, "tls.key: it is not the key to the first certificate"),
    ];
    let secret = one.key.lines().nth(1).unwrap();
    for (certificate, key, expected) in table {
        let told = problem(&[certificate, key]);
        assert!(told.starts_with(expected), "{expected}: {told}");
        assert!(!told.contains(&secret[..16]) && !told.contains('\n'), "{told}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_once_it_was_met_twice_with_its_key() {
    let authority = Authority::new();
    let (first, second) = (authority.issue(), authority.issue());
    let paths = Paths::new(&authority, &first);
    let mut tls = Tls::open(&config(&paths)).await.unwrap();
    assert_eq!(shown(&tls, &authority).await, der(&first.certificate).to_vec());
    std::fs::write(paths.certificate(), &second.certificate).unwrap();
    tls.reload.look(false).await;
    assert!(tls.figures.problems().is_empty(), "its key may follow");
    paths.write(&second);
    tls.reload.look(false).await;
    assert_eq!(shown(&tls, &authority).await, der(&first.certificate).to_vec());
    tls.reload.look(false).await;
    assert_eq!(shown(&tls, &authority).await, der(&second.certificate).to_vec());
    assert_eq!((tls.figures.taken(), tls.figures.refused()), (1, 0));
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_last_ones_in_force_and_are_told() {
    let authority = Authority::new();
    let issued = authority.issue();
    let paths = Paths::new(&authority, &issued);
    let mut tls = Tls::open(&config(&paths)).await.unwrap();
    let amiss = tls.among(Arc::new(Vec::new));
    let breaks: [&dyn Fn(); 3] = [
        &|| std::fs::remove_file(paths.key()).unwrap(),
        &|| paths.write(&Issued { certificate: issued.certificate.clone(), key: authority.issue().key }),
        &|| std::fs::write(paths.certificate(), "nothing").unwrap(),
    ];
    for (number, break_it) in (1..).zip(breaks) {
        paths.write(&issued);
        tls.reload.look(false).await;
        assert!(amiss().is_empty());
        break_it();
        for _ in 0..3 {
            tls.reload.look(false).await;
        }
        assert_eq!(shown(&tls, &authority).await, der(&issued.certificate).to_vec());
        assert_eq!(tls.figures.refused(), number);
        assert!(matches!(&amiss()[..], [problem] if problem.starts_with("tls.")), "{:?}", amiss());
    }
}

#[tokio::test]
async fn who_vouches_for_others_may_change_too() {
    let (old, new) = (Authority::new(), Authority::new());
    let paths = Paths::new(&new, &new.issue());
    std::fs::write(paths.ca(), old.pem()).unwrap();
    let mut tls = Tls::open(&config(&paths)).await.unwrap();
    let (connector, acceptor) = (tls.connector(), tls.acceptor().unwrap());
    let call = async |name: &str| {
        let (near, far) = duplex(64 << 10);
        let (called, accepted) = tokio::join!(connector.connect(name, Alpn::H2, near), acceptor.accept(far));
        let (mut called, mut accepted) = (called?, accepted?);
        assert_eq!(called.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        called.write_all(b"x").await?;
        called.flush().await?;
        accepted.read_u8().await
    };
    assert!(call("localhost").await.is_err(), "nobody vouches for it");
    std::fs::write(paths.ca(), old.pem() + &new.pem()).unwrap();
    tls.reload.look(true).await;
    assert_eq!(call("localhost").await.unwrap(), b'x');
    assert_eq!(call("127.0.0.1").await.unwrap(), b'x');
    assert!(call("elsewhere").await.is_err(), "its certificate bears other names");
    let refused = Connector::default().connect("localhost", Alpn::H1, duplex(1).0).await.err().unwrap();
    assert!(refused.to_string().contains("tls.ca"), "{refused}");
}

#[tokio::test]
async fn who_speaks_plainly_is_told_apart_in_the_log() {
    let authority = Authority::new();
    let tls = Tls::open(&config(&Paths::new(&authority, &authority.issue()))).await.unwrap();
    let (mut near, far) = duplex(64 << 10);
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let refused = tls.acceptor().unwrap().accept(far).await.err().unwrap();
    assert_eq!(reason(&refused), "it does not speak TLS");
    assert_eq!(reason(&std::io::ErrorKind::BrokenPipe.into()), "broken pipe");
}

#[tokio::test]
async fn half_of_a_certificate_is_no_reason_to_go_without() {
    let authority = Authority::new();
    let paths = Paths::new(&authority, &authority.issue());
    for (half, missing) in [
        (TlsConfig { key: String::new(), ..config(&paths) }, "tls.key: "),
        (TlsConfig { certificate: String::new(), ..config(&paths) }, "tls.certificate: "),
    ] {
        let told = Tls::open(&half).await.err().unwrap().to_string();
        assert!(told.starts_with(missing), "{told}");
    }
}

#[tokio::test]
async fn nothing_is_open_where_nothing_is_named() {
    let tls = Tls::open(&TlsConfig::default()).await.unwrap();
    assert!(tls.acceptor().is_none());
    // Returns, since there is nothing to look at.
    tls.follow().await;
}
