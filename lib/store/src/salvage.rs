//! Salvage: a new file of all that can be read of a damaged one. What cannot be is made anew from what else is known, or given up by name. The
//! damaged files are kept as they are.

use crate::{
    Place, PlaceError, StoreError, check, load::unsigned, record, schema, schema::TABLES_AND_KEYS, wal,
};
use gq_cluster::{Cluster, Event, Job, Node, Rows};
use gq_model::{ClusterId, JobId, NodeName};
use rusqlite::{Connection, OpenFlags, Transaction, params, params_from_iter, types::Value};
use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Numbers of orders and lives go on so far behind the last one known when it is not known how far they had come.
const LEAP: i64 = 1 << 32;
/// Why a node whose record was lost takes no jobs.
const NODE_LOST: &str =
    "its record was damaged and is given up: see that all is well there, then gqctl resume";
const ORDER_LOST: &str = "orders to it were damaged and are given up: requeue or cancel what stays STARTING there, then gqctl resume";

impl Place {
    /// Puts a damaged state in order at the cost of what cannot be read. Returns what was given up or made anew, in words; nothing when nothing is
    /// damaged. The files are kept in a folder `damaged-N`.
    ///
    /// # Errors
    /// When not even the cluster's identity can be read, the state is of another format, or the disk refuses something.
    pub fn accept_loss(&self) -> Result<Vec<String>, PlaceError> {
        let path = self.database();
        let of_store = |source| PlaceError::Store { path: path.clone(), source };
        match damage(&path) {
            Ok(words) if words.is_empty() => return Ok(words),
            Ok(_) | Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(of_store(error)),
        }
        let io_at = |path: &Path| {
            let path = path.to_owned();
            move |source| PlaceError::Io { path, source }
        };
        let kept = keep_files(&path).map_err(io_at(&path))?;
        let draft = path.with_extension("db.new");
        let _ = fs::remove_file(&draft);
        let mut words = vec![format!("the damaged files are kept in {}", kept.display())];
        words.extend(salvage(&kept.join("gq.db"), &draft).map_err(of_store)?);
        // Between these two there is no state here, so that a crash leaves nothing that could be taken for a whole one.
        fs::remove_file(&path).map_err(io_at(&path))?;
        for name in ["gq.db-wal", "gq.db-shm"] {
            let _ = fs::remove_file(path.with_file_name(name));
        }
        fs::rename(&draft, &path).map_err(io_at(&path))?;
        crate::place::sync_folder(path.parent().unwrap_or(&path))?;
        Ok(words)
    }
}

/// What is damaged of a database, in words.
fn damage(path: &Path) -> Result<Vec<String>, StoreError> {
    wal::look(path)?;
    let conn = reader(path)?;
    if schema::known_format(&conn)? < schema::FORMAT {
        // Its rows are not as this program writes them; only that the file is one can be said.
        return check::structure(&conn, path).map(|()| Vec::new());
    }
    check::all(&conn)
}

/// A connection that changes nothing of the file, also when it is closed.
fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    schema::fold_in_at_close(&conn, false)?;
    schema::acquaint(&conn)?;
    Ok(conn)
}

/// Copies the files of a database into a new folder beside it.
fn keep_files(database: &Path) -> io::Result<PathBuf> {
    let folder = (1u32..).map(|number| database.with_file_name(format!("damaged-{number}")));
    for folder in folder {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
        for name in ["gq.db", "gq.db-wal"] {
            match fs::copy(database.with_file_name(name), folder.join(name)) {
                Ok(_) => File::open(folder.join(name))?.sync_all()?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        File::open(&folder)?.sync_all()?;
        return Ok(folder);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Rows that could not be read, by table and key, and tables that could not be read to their end.
#[derive(Default)]
struct Lost {
    rows: Vec<(&'static str, Vec<Value>)>,
    gaps: BTreeSet<&'static str>,
    words: Vec<String>,
}

impl Lost {
    /// The keys of rows of a table that were lost.
    fn of(&self, table: &str) -> impl Iterator<Item = &[Value]> {
        self.rows.iter().filter(move |(of, _)| *of == table).map(|(_, key)| key.as_slice())
    }

    fn any(&self, tables: &[&str]) -> bool {
        let is_one = |table: &str| tables.contains(&table);
        self.rows.iter().any(|(table, _)| is_one(table)) || self.gaps.iter().any(|table| is_one(table))
    }
}

fn salvage(from: &Path, draft: &Path) -> Result<Vec<String>, StoreError> {
    let old = reader(from)?;
    if schema::known_format(&old)? < schema::FORMAT {
        return Err(StoreError::Damaged(
            "it is of an older format: the gq that wrote it can save what can be read of it, and this one goes on from there".into(),
        ));
    }
    let id: Option<ClusterId> = old
        .query_row("SELECT value FROM meta WHERE key = 'cluster'", [], |row| row.get::<_, String>(0))
        .ok()
        .and_then(|id| id.parse().ok());
    let Some(id) = id else {
        return Err(StoreError::Damaged(
            "not even which cluster this is can be read: nothing can be saved".into(),
        ));
    };
    schema::create(draft, id)?;
    let mut new = Connection::open(draft)?;
    schema::acquaint(&new)?;
    let tx = new.transaction()?;
    let mut lost = Lost::default();
    for (table, keys) in TABLES_AND_KEYS {
        copy(&old, &tx, table, keys, &mut lost)?;
    }
    mend_meta(&tx, &mut lost)?;
    mend_nodes(&tx, &mut lost)?;
    mend_jobs(&tx, &mut lost)?;
    tx.commit()?;
    new.close().map_err(|(_, error)| error)?;
    Ok(lost.words)
}

/// Copies what is whole of a table: from its beginning, and, where that does not lead to its end, from its end too.
fn copy(
    old: &Connection,
    new: &Transaction<'_>,
    table: &'static str,
    keys: usize,
    lost: &mut Lost,
) -> Result<(), StoreError> {
    for order in ["ASC", "DESC"] {
        let by: Vec<String> = (1..=keys).map(|at| format!("{at} {order}")).collect();
        let select = format!("SELECT * FROM {table} ORDER BY {}", by.join(", "));
        let walked = old.prepare(&select).map_err(StoreError::from).and_then(|mut select| {
            let columns = select.column_count();
            let marks = vec!["?"; columns].join(",");
            let mut insert =
                new.prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES({marks})"))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let values = (0..columns).map(|at| row.get::<_, Value>(at)).collect::<Result<Vec<_>, _>>()?;
                if check::is_whole(table, row).unwrap_or(false) {
                    insert.execute(params_from_iter(&values))?;
                } else {
                    lost.words.push(format!("{} is given up", check::name(table, keys, row)));
                    lost.rows.push((table, values.into_iter().take(keys).collect()));
                }
            }
            Ok(())
        });
        match walked {
            Ok(()) => return Ok(()),
            Err(error @ StoreError::Damaged(_)) => {
                if lost.gaps.insert(table) {
                    lost.words.push(format!(
                        "{table}: some rows cannot be read and are given up: {}",
                        short(&error)
                    ));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The first line of an error: what is to be done about it is being done.
fn short(error: &StoreError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Ids of jobs and lives of the controller never repeat.
fn mend_meta(tx: &Transaction<'_>, lost: &mut Lost) -> Result<(), StoreError> {
    let greatest = "SELECT max(coalesce(max(value), 0), coalesce((SELECT max(id) FROM job), 0), \
                    coalesce((SELECT max(job) FROM event), 0), coalesce((SELECT max(job) FROM run), 0), \
                    coalesce((SELECT max(job) FROM token), 0)) FROM meta WHERE key = 'last_job'";
    let last: i64 = tx.query_row(greatest, [], |row| row.get(0))?;
    tx.execute(&record::put("meta", 3), params!["last_job", last])?;
    if lost.any(&["meta"]) {
        let epoch: i64 = tx.query_row("SELECT value FROM meta WHERE key = 'epoch'", [], |row| row.get(0))?;
        tx.execute(&record::put("meta", 3), params!["epoch", epoch.saturating_add(LEAP)])?;
        lost.words.push(format!("the next job is {}, and the next life of gqd leaps ahead", last + 1));
    }
    Ok(())
}

/// The text of a key.
fn name_of(key: &[Value]) -> Option<NodeName> {
    match key.first() {
        Some(Value::Text(name)) => name.parse().ok(),
        Some(Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_)) | None => None,
    }
}

/// A node is known by its record and by the count of its letters; either is made anew from the other. A node of which an order is lost is told that
/// all before it are gone.
fn mend_nodes(tx: &Transaction<'_>, lost: &mut Lost) -> Result<(), StoreError> {
    let mut names: BTreeSet<NodeName> =
        ["node", "inbox"].iter().flat_map(|table| lost.of(table)).filter_map(name_of).collect();
    for query in ["SELECT node FROM inbox", "SELECT name FROM node"] {
        let mut select = tx.prepare(query)?;
        let known = select.query_map([], |row| row.get::<_, String>(0))?;
        names.extend(known.filter_map(Result::ok).filter_map(|name| name.parse::<NodeName>().ok()));
    }
    let short_of: BTreeSet<NodeName> = lost.of("outbox").filter_map(name_of).collect();
    for name in names {
        let body: Option<String> = one(tx, "SELECT body FROM node WHERE name = ?", &name)?;
        let counts: Option<(i64, i64, i64)> =
            one(tx, "SELECT json_array(epoch, seq, ordered) FROM inbox WHERE node = ?", &name)?
                .and_then(|text: String| serde_json::from_str(&text).ok());
        let known = body.as_deref().and_then(|body| record::read::<Node>(body, String::new).ok());
        let mut node = known.unwrap_or_else(|| {
            lost.words.push(format!("node {name} is made anew, without what it was, and drained"));
            let mut node = Node::new(name.clone());
            node.drained = Some(NODE_LOST.into());
            node
        });
        let (epoch, seq, ordered) = counts.unwrap_or_else(|| {
            let of_record = |number: u64| crate::commit::signed(number);
            let ordered = of_record(node.last_order.0);
            (
                of_record(node.epoch.0),
                of_record(node.last_report.0),
                if body.is_some() { ordered } else { LEAP },
            )
        });
        if short_of.contains(&name) {
            let last = lost.of("outbox").filter(|key| name_of(key).as_ref() == Some(&name));
            let last = last.filter_map(|key| match key.get(1) {
                Some(Value::Integer(seq)) => Some(*seq),
                _ => None,
            });
            tx.execute("DELETE FROM outbox WHERE node = ? AND seq < ?", params![name.as_str(), last.max()])?;
            node.drained.get_or_insert_with(|| ORDER_LOST.into());
        }
        tx.execute(&record::put("node", 3), params![name.as_str(), record::write(&node)?])?;
        tx.execute(&record::put("inbox", 5), params![name.as_str(), epoch, seq, ordered])?;
    }
    Ok(())
}

fn one(tx: &Transaction<'_>, query: &str, name: &NodeName) -> Result<Option<String>, StoreError> {
    let mut select = tx.prepare_cached(query)?;
    let mut rows = select.query([name.as_str()])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}

/// A live job is what its trail comes to.
fn mend_jobs(tx: &Transaction<'_>, lost: &mut Lost) -> Result<(), StoreError> {
    if lost.any(&["job"]) {
        let mut nodes = Vec::new();
        let mut select = tx.prepare("SELECT body FROM node")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            nodes.push(record::read::<Node>(&row.get::<_, String>(0)?, || "a node".into())?);
        }
        let mut ids: BTreeSet<i64> = lost
            .of("job")
            .filter_map(|key| match key.first() {
                Some(Value::Integer(id)) => Some(*id),
                _ => None,
            })
            .collect();
        let mut select =
            tx.prepare("SELECT DISTINCT job FROM event WHERE job NOT IN (SELECT id FROM job)")?;
        ids.extend(select.query_map([], |row| row.get::<_, i64>(0))?.filter_map(Result::ok));
        for id in ids {
            mend_job(tx, JobId(unsigned(id)), &nodes, lost)?;
        }
    }
    let mut select = tx.prepare("SELECT body FROM job")?;
    let mut rows = select.query([])?;
    let mut put = tx.prepare(&record::put("token", 4))?;
    while let Some(row) = rows.next()? {
        let job: Job = record::read(&row.get::<_, String>(0)?, || "a job".into())?;
        put.execute(params![job.token.0, crate::commit::signed(job.id.0), job.uid.0])?;
    }
    Ok(())
}

fn mend_job(tx: &Transaction<'_>, id: JobId, nodes: &[Node], lost: &mut Lost) -> Result<(), StoreError> {
    let is_named = lost.of("job").any(|key| *key == [Value::Integer(crate::commit::signed(id.0))]);
    let job = match crate::history::trail(tx, id).map(|trail| fold(&trail, nodes, id)) {
        Ok(Some(job)) => job,
        Ok(None) if !is_named => return Ok(()),
        Ok(None) | Err(_) => {
            lost.words.push(format!(
                "job {id} lived, and cannot be made anew of its trail: what runs of it will be ended"
            ));
            return Ok(());
        }
    };
    tx.execute(&record::put("job", 3), params![crate::commit::signed(id.0), record::write(&job)?])?;
    lost.words.push(format!("job {id} is made anew of its trail"));
    Ok(())
}

/// What a trail comes to; none when nothing of the job lives, or the trail has a gap.
fn fold(trail: &[Event], nodes: &[Node], id: JobId) -> Option<Job> {
    let rows = Rows {
        last_job: JobId(0),
        jobs: Vec::new(),
        nodes: nodes.to_vec(),
        bookings: Vec::new(),
        usage: Vec::new(),
        spent: Vec::new(),
    };
    let mut cluster = Cluster::restore(rows).ok()?;
    trail.iter().try_for_each(|event| cluster.apply(event)).ok()?;
    cluster.job(id).map(|job| (**job).clone())
}
