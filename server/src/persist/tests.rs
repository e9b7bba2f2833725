//! The store against a real folder, without a server around it.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use heureka_model::{Instance, InstanceKey, LeaseTerms, Mono, Now, Status, Wall};
use heureka_registry::{Claim, Config, Origin, RegisterMode, Seeds, SetOverride, Surface};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tempfile::TempDir;

use super::file::{File, Header, Row};
use super::load::load;
use super::*;

const GRPC: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
const START: u64 = 1_800_000_000_000;

/// A clock that moves by hand.
#[derive(Debug, Default)]
struct Manual(AtomicU64);

impl Manual {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for Manual {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::Relaxed);
        Now { mono: Mono(millis), wall: Wall(START + millis) }
    }
}

/// A server's memory, its clock and its folder.
struct World {
    clock: Arc<Manual>,
    deps: Deps,
}

impl World {
    fn new(folder: &Path) -> Self {
        Self::after(folder, 1, 0)
    }

    /// Another life of the server, so many seconds after the first began.
    fn after(folder: &Path, boot: u64, seconds: u64) -> Self {
        let clock = Arc::new(Manual::default());
        clock.pass(seconds);
        let config = Config { tombstone_ttl: Duration::from_secs(1), ..Config::default() };
        let seeds = Seeds { boot, hash: 7, shuffle: 11 };
        let registry = Arc::new(Registry::new(config, seeds, clock.now()));
        let deps = Deps {
            folder: folder.to_owned(),
            cluster: "blue".into(),
            registry,
            clock: clock.clone(),
            figures: Arc::default(),
        };
        Self { clock, deps }
    }

    fn load(&self) -> Opened {
        load(self.deps.clone()).unwrap()
    }

    fn register(&self, id: &str) {
        let mut instance = Instance::new(key(id));
        instance.status = Status::Up;
        instance.lease = LeaseTerms::clamped(Duration::from_secs(30), Duration::from_secs(90));
        let now = self.clock.now();
        self.deps.registry.register(&instance, Claim::Next, RegisterMode::Upsert, &GRPC, now).unwrap();
    }

    fn cancel(&self, id: &str) {
        self.deps.registry.cancel(key(id).as_ref(), Claim::Next, &GRPC, self.clock.now()).unwrap();
    }

    fn disable(&self, id: &str) {
        let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
        self.deps.registry.set_override(key(id).as_ref(), set, &GRPC, self.clock.now()).unwrap();
    }

    fn status(&self, id: &str) -> Option<Status> {
        Some(self.deps.registry.get(key(id).as_ref(), self.clock.now())?.status())
    }

    fn instances(&self) -> u64 {
        self.deps.registry.stats().instances
    }
}

fn key(id: &str) -> InstanceKey {
    InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() }
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// A folder in which a server with `count` instances wrote and ended, one of them disabled, one cancelled.
fn written(count: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let mut opened = world.load();
    for id in 0..count {
        world.register(&format!("{id}"));
    }
    world.disable("1");
    world.cancel("2");
    opened.writer.step(true);
    assert_eq!(world.deps.figures.errors(), 0);
    folder
}

#[test]
fn a_restart_restores_instances_removals_and_overrides() {
    let folder = written(5);
    let world = World::after(folder.path(), 2, 60);
    let mut opened = world.load();
    assert!(opened.warm);
    let seen: Vec<_> = ["0", "1", "2"].iter().map(|id| world.status(id)).collect();
    assert_eq!(seen, [Some(Status::Up), Some(Status::OutOfService), None]);
    assert_eq!(world.deps.registry.stats().tombstones, 1, "the cancel is remembered");
    assert_eq!((world.deps.figures.rows(), world.deps.figures.skipped()), (5, 0));
    opened.writer.step(false);
    assert_eq!(world.deps.figures.written(), 0, "what was loaded is not written again");
    world.register("9");
    opened.writer.step(false);
    assert_eq!((world.deps.figures.written(), world.deps.figures.rows()), (1, 6));
}

#[test]
fn a_first_start_finds_nothing_and_keeps_others_out_of_its_files() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep/down");
    let world = World::new(&folder);
    let mut opened = world.load();
    assert!(!opened.warm && world.deps.figures.set_aside() == 0);
    opened.writer.step(true);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file_in(&folder))), (0o700, 0o600));
    drop(opened);
    fs::set_permissions(file_in(&folder), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(World::after(&folder, 2, 1).load().warm);
    assert_eq!(mode(&file_in(&folder)), 0o600);
}

#[test]
fn an_old_file_says_only_how_far_the_clock_had_come() {
    let folder = written(5);
    for (boot, seconds, warm) in [(2, 601, false), (3, 601 + 600, true)] {
        let world = World::after(folder.path(), boot, seconds);
        let mut opened = world.load();
        assert_eq!((opened.warm, world.instances()), (warm, 0));
        assert!(world.deps.registry.clock() >> 16 >= START);
        opened.writer.step(true);
        assert_eq!(world.deps.figures.rows(), 0, "what is not believed is not kept");
        assert_eq!(world.deps.figures.set_aside(), 0);
    }
}

#[test]
fn a_file_from_the_future_is_not_believed() {
    let folder = written(3);
    let world = World::new(folder.path());
    let early = Deps { clock: Arc::new(Earlier), ..world.deps.clone() };
    assert!(!load(early).unwrap().warm);
    assert_eq!(world.instances(), 0);
}

/// A clock that was set back by a day.
#[derive(Debug)]
struct Earlier;

impl Clock for Earlier {
    fn now(&self) -> Now {
        Now { mono: Mono(0), wall: Wall(START - 86_400_000) }
    }
}

#[test]
fn a_file_of_another_cluster_or_format_is_set_aside() {
    let folder = written(3);
    let mut world = World::after(folder.path(), 2, 1);
    world.deps.cluster = "green".into();
    assert!(!world.load().warm);
    assert_eq!((world.instances(), world.deps.figures.set_aside()), (0, 1));
    assert!(folder.path().join("heureka.redb.set-aside").exists());

    let folder = written(3);
    let numbers = redb::TableDefinition::<&str, u64>::new("numbers");
    let database = redb::Database::open(file_in(folder.path())).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(numbers).unwrap().insert("format", file::FORMAT + 1).unwrap();
    writing.commit().unwrap();
    drop(database);
    let world = World::after(folder.path(), 2, 1);
    assert!(!world.load().warm);
    assert_eq!((world.instances(), world.deps.figures.set_aside()), (0, 1));
}

#[test]
fn a_header_that_counts_other_rows_is_not_believed() {
    let folder = written(3);
    let numbers = redb::TableDefinition::<&str, u64>::new("numbers");
    let database = redb::Database::open(file_in(folder.path())).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(numbers).unwrap().insert("count", 99).unwrap();
    writing.commit().unwrap();
    drop(database);
    let world = World::after(folder.path(), 2, 1);
    assert!(!world.load().warm);
    assert_eq!((world.instances(), world.deps.figures.set_aside()), (0, 1));
}

#[test]
fn a_row_that_cannot_be_read_is_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::open(&file_in(folder.path())).unwrap();
    let header = Header { cluster: "blue".into(), written: START, ..Header::default() };
    let rows = [(vec![1], Row::Live(vec![0xff; 9])), (vec![2], Row::Removed(Vec::new()))];
    assert_eq!(file.write(&rows, &header).unwrap(), 2);
    drop(file);
    let world = World::new(folder.path());
    assert!(world.load().warm);
    assert_eq!((world.instances(), world.deps.figures.skipped()), (0, 2));
}

/// Starts on a file that may be damaged: it serves all of it or nothing, and writes a sound one.
#[track_caller]
fn assert_clean_start(folder: &Path, count: u64, what: &str) {
    let world = World::after(folder, 2, 1);
    let mut opened = world.load();
    let expected = if opened.warm { count } else { 0 };
    assert_eq!(world.instances(), expected, "{what}");
    assert!(opened.warm || !file_in(folder).exists() || world.deps.registry.head() == 0, "{what}");
    world.register("new");
    opened.writer.step(true);
    // The first failure closes the file; the next step opens a new one.
    opened.writer.step(true);
    drop(opened);
    let again = World::after(folder, 3, 2);
    assert!(again.load().warm, "{what}");
    assert_eq!(again.instances(), expected + 1, "{what}");
}

#[test]
fn a_truncated_file_is_a_clean_start() {
    let whole = written(20);
    let bytes = fs::read(file_in(whole.path())).unwrap();
    let mut random = SmallRng::seed_from_u64(5);
    let mut lengths: Vec<usize> = vec![0, 1, 9, 64, 320, 511, 512, 4095, 4096, 4097, bytes.len() - 1];
    lengths.extend((0..15).map(|_| random.random_range(0..bytes.len())));
    for length in lengths {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file_in(folder.path()), &bytes[..length]).unwrap();
        assert_clean_start(folder.path(), 19, &format!("{length} bytes"));
    }
}

#[test]
fn a_flipped_bit_is_a_clean_start() {
    let whole = written(20);
    let bytes = fs::read(file_in(whole.path())).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut random = SmallRng::seed_from_u64(6);
    let mut places: Vec<usize> = (0..320).step_by(16).collect();
    places.extend((0..30).map(|_| used[random.random_range(0..used.len())]));
    for at in places {
        let folder = tempfile::tempdir().unwrap();
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.random_range(0..8);
        fs::write(file_in(folder.path()), damaged).unwrap();
        assert_clean_start(folder.path(), 19, &format!("a bit of byte {at}"));
    }
}

#[test]
fn what_is_no_file_of_ours_ends_the_start_with_its_name() {
    let refusal = |folder: &Path| match load(World::new(folder).deps) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the folder was taken"),
    };
    let elsewhere = written(3);
    let folder = tempfile::tempdir().unwrap();
    symlink(file_in(elsewhere.path()), file_in(folder.path())).unwrap();
    let told = refusal(folder.path());
    assert!(told.contains("symbolic link") && told.contains("server.data_dir"), "{told}");
    fs::remove_file(file_in(folder.path())).unwrap();
    symlink("/nowhere/at/all", file_in(folder.path())).unwrap();
    assert!(refusal(folder.path()).contains("symbolic link"));
    fs::remove_file(file_in(folder.path())).unwrap();
    fs::create_dir(file_in(folder.path())).unwrap();
    assert!(refusal(folder.path()).contains("no regular file"));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(refusal(&file.path().join("below")).contains("server.data_dir"));
}

#[test]
fn a_file_in_use_ends_the_start_and_stays_as_it_is() {
    let folder = written(3);
    let first = World::after(folder.path(), 2, 1);
    let opened = first.load();
    let second = World::after(folder.path(), 3, 1);
    let told = load(second.deps.clone()).err().unwrap().to_string();
    assert!(told.contains("another process"), "{told}");
    assert!(opened.warm && second.deps.figures.set_aside() == 0);
}

/// Memory that fails when told to.
#[derive(Debug)]
struct Faulty {
    inner: InMemoryBackend,
    full: Arc<AtomicBool>,
}

impl Faulty {
    fn check(&self) -> Result<(), io::Error> {
        match self.full.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.check()?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.check()?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.check()?;
        self.inner.write(offset, data)
    }
}

#[test]
fn a_full_disk_is_counted_and_tried_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let full = Arc::new(AtomicBool::new(false));
    let file = File::over(Faulty { inner: InMemoryBackend::new(), full: full.clone() }).unwrap();
    let mut writer = Writer::new(world.deps.clone(), file_in(folder.path()), Some(file), 0);
    world.register("1");
    writer.step(false);
    assert_eq!((world.deps.figures.rows(), world.deps.figures.errors()), (1, 0));
    full.store(true, Ordering::Relaxed);
    world.register("2");
    writer.step(false);
    let failed = world.deps.figures.last_error().unwrap();
    assert_eq!((world.deps.figures.errors(), failed.at), (1, Wall(START)));
    writer.step(false);
    assert_eq!(world.deps.figures.errors(), 1, "not tried again at once");
    assert_eq!(world.instances(), 2);
    world.clock.pass(10);
    writer.step(false);
    assert_eq!(world.deps.figures.rows(), 2, "the file was begun anew");
    assert_eq!(world.deps.figures.last_write(), Some(Wall(START + 10_000)));
}

#[test]
fn a_quiet_server_says_every_minute_that_its_file_is_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let mut writer = world.load().writer;
    for (seconds, written) in [(0, 0), (59, 0), (1, 60), (59, 60), (1, 120)] {
        world.clock.pass(seconds);
        writer.step(false);
        assert_eq!(world.deps.figures.last_write(), Some(Wall(START + written * 1000)));
    }
}

#[test]
fn removals_that_nobody_remembers_leave_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let mut writer = world.load().writer;
    world.register("1");
    world.register("2");
    world.cancel("1");
    writer.step(false);
    assert_eq!(world.deps.figures.rows(), 2);
    for _ in 0..700 {
        world.clock.pass(1);
        let beat = heureka_registry::Beat::Plain;
        world.deps.registry.renew(key("2").as_ref(), beat, None, &GRPC, world.clock.now()).unwrap();
        world.deps.registry.tick(world.clock.now());
    }
    assert_eq!(world.deps.registry.stats().tombstones, 0);
    writer.step(false);
    assert_eq!(world.deps.figures.rows(), 1);
    drop(writer);
    let after = World::after(folder.path(), 2, 700);
    assert!(after.load().warm);
    assert_eq!(after.status("2"), Some(Status::Up));
}

#[tokio::test]
async fn the_last_batch_is_written_when_the_server_ends() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let store = open(world.deps.clone()).await.unwrap().run();
    world.register("1");
    store.finish().await;
    let after = World::after(folder.path(), 2, 1);
    assert!(after.load().warm && after.status("1") == Some(Status::Up));
}

#[test]
#[ignore = "prints how long it takes; to be run with --profile fast"]
fn figures_of_a_hundred_thousand_instances() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let mut writer = world.load().writer;
    for id in 0..100_000 {
        let mut instance = Instance::new(key(&format!("host-{id}.example.com:web:8080")));
        instance.host_name = format!("host-{id}.example.com");
        instance.ip_address = format!("10.{}.{}.{}", id >> 16, id >> 8 & 255, id & 255);
        instance.metadata = (0..10).map(|n| (format!("key-{n}"), format!("value-{n}-{}", id % 7))).collect();
        let now = world.clock.now();
        world.deps.registry.register(&instance, Claim::Next, RegisterMode::Upsert, &GRPC, now).unwrap();
    }
    let watch = crate::clock::Stopwatch::start();
    writer.step(true);
    let write = watch.seconds();
    assert_eq!(world.deps.figures.rows(), 100_000);
    drop(writer);
    let bytes = fs::metadata(file_in(folder.path())).unwrap().len();
    let after = World::after(folder.path(), 2, 1);
    let watch = crate::clock::Stopwatch::start();
    let opened = after.load();
    let load = watch.seconds();
    assert!(opened.warm && after.instances() == 100_000);
    let figures = format!("100000 instances: write {write:.3} s, load {load:.3} s, file {} MiB", bytes >> 20);
    io::Write::write_all(&mut io::stderr(), format!("{figures}\n").as_bytes()).unwrap();
}
