//! Looking back: what has ended, one by one and in sums, and one job with all that is kept of it.

use crate::lab::Lab;
use gq_model::End;
use serde_json::{Value, json};

fn acct(lab: &Lab, words: &str) -> Value {
    serde_json::from_str(&lab.say(&format!("gqacct {words} --json")).ok()).unwrap()
}

fn ids(lab: &Lab, words: &str) -> Vec<u64> {
    let runs = acct(lab, words)["runs"].as_array().unwrap().clone();
    runs.iter().map(|run| run["id"].as_u64().unwrap()).collect()
}

#[test]
fn what_has_ended_is_found_by_its_words_and_each_attempt_counts() {
    let lab = Lab::with_cards(2);
    let good = lab.submit("-J good --account=physics", "true");
    assert_eq!(good.ended(), End::Completed);
    let bad = lab.submit("-J bad --gpus=1", "exit 3");
    assert_eq!(bad.ended(), End::Failed);
    let tasks = lab.submit("-J tasks --array=0-2", "true");
    tasks.over();
    let again = lab.submit("-J again --retry=1", "[ $GQ_RUN = 2 ]");
    assert_eq!(again.ended(), End::Completed);
    let never = lab.submit("-J never -H --array=4-9", "true");
    assert_eq!(lab.say(&format!("gqcancel {}", never.id)).code, 0);
    never.over();

    assert_eq!(ids(&lab, "-n good"), [good.id]);
    assert_eq!(ids(&lab, "-t F"), [bad.id]);
    assert_eq!(ids(&lab, "--account=physics"), [good.id]);
    assert_eq!(ids(&lab, "-N n1 -p main -n bad,good --me"), [good.id, bad.id]);
    assert_eq!(ids(&lab, &format!("-j {}_1", tasks.id)), [tasks.id]);
    assert!(ids(&lab, "-E yesterday").is_empty() && ids(&lab, "-n nobody").is_empty());
    assert_eq!(ids(&lab, "-n again"), [again.id]);
    assert_eq!(ids(&lab, "-n again -D"), [again.id, again.id]);
    let all = acct(&lab, "-D");
    let runs = all["runs"].as_array().unwrap();
    assert!(runs.windows(2).all(|two| two[0]["end_time"].as_f64() <= two[1]["end_time"].as_f64()), "{all}");
    let first = &acct(&lab, "-n again -D")["runs"][0];
    assert_eq!(
        (&first["again"], &first["state"], &first["run"]),
        (&true.into(), &"FAILED".into(), &1.into())
    );
    assert!(first["used"]["cpu_seconds"].is_number(), "{first}");
    let never_ran = &acct(&lab, "-n never")["runs"][0];
    assert_eq!((&never_ran["array_tasks"], &never_ran["node"]), (&"4-9".into(), &Value::Null));

    let table = lab.say("gqacct").ok();
    let rows =
        [format!("{}_[4-9]", never.id), format!("{}_2 ", tasks.id), "FAILED".to_owned(), "3:0".to_owned()];
    assert!(rows.iter().all(|row| table.contains(row)), "{table}");
    let csv = lab.say("gqacct --csv -n bad -o jobid,state,exitcode,gpus,account").ok();
    assert_eq!(csv, format!("jobid,state,exitcode,gpus,account\n{},FAILED,3:0,1,\n", bad.id));
    assert!(lab.say("gqacct -o moon").refused(2).contains("is no field"));
    assert!(lab.say("gqacct -t PD").refused(2).contains("gqstat"));
    assert!(lab.say("gqacct -S soonish").refused(2).contains("--start=soonish"));
}

#[test]
fn sums_are_of_all_that_was_held_also_by_runs_that_were_done_again() {
    let lab = Lab::with_cards(2);
    let card = lab.submit("-J one --gpus=2 -c2 --mem=512M", "true");
    assert_eq!(card.ended(), End::Completed);
    let again = lab.submit("-J two --retry=1", "[ $GQ_RUN = 2 ]");
    assert_eq!(again.ended(), End::Completed);
    let sums = |words: &str| acct(&lab, &format!("usage {words}"))["usage"].as_array().unwrap().clone();
    let by_name = sums("--by=name");
    assert_eq!(by_name.iter().map(|sum| &sum["name"]).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((&by_name[1]["runs"], &by_name[1]["again"]), (&2.into(), &1.into()));
    let one = card.view();
    // It held two cards for at least as long as its script ran.
    let ran = one["end_time"].as_f64().unwrap() - one["start_time"].as_f64().unwrap();
    let (cards, cpus) =
        (by_name[0]["card_hours"].as_f64().unwrap(), by_name[0]["cpu_hours"].as_f64().unwrap());
    assert!(cards * 3600.0 + 0.002 >= 2.0 * ran && cards * 3600.0 < 60.0, "{cards} {ran}");
    // Both are told in whole seconds: two cpus and two cards are as much.
    assert!((cards - cpus).abs() * 3600.0 <= 1.0, "{cards} {cpus}");
    assert_eq!(by_name[0]["gpu_utilization"], Value::Null, "nobody can measure a declared card");
    let all = sums("--by=all");
    assert_eq!((all.len(), &all[0]["runs"]), (1, &3.into()));
    let by_day = sums("--by=day,state,node,partition,account,user");
    assert_eq!(by_day.len(), 2, "{by_day:?}");
    let today = jiff::Timestamp::now().to_zoned_datetime(jiff::tz::TimeZone::system()).date().to_string();
    assert!(by_day.iter().all(|sum| sum["node"] == "n1" && sum["account"].is_null()), "{by_day:?}");
    assert!(by_day.iter().any(|sum| sum["day"] == today.as_str()), "{by_day:?}");
    assert!(sums("-n nobody").is_empty() && sums("-E yesterday").is_empty());
    let csv = lab.say("gqacct usage --by=month --csv -S yesterday").ok();
    assert!(csv.starts_with("month,runs,again,card_hours,"), "{csv}");
    assert!(lab.say("gqacct usage --by=moon").refused(2).contains("moon"));
}

#[test]
fn waits_are_told_as_distributions_and_releases_with_them() {
    let lab = Lab::with_cards(1);
    for _ in 0..3 {
        assert_eq!(lab.submit("--gpus=1", "true").ended(), End::Completed);
    }
    let later = lab.submit("--begin=now+2seconds", "true");
    assert_eq!(later.ended(), End::Completed);
    let waits = acct(&lab, "waits --by=partition,user");
    let all = &waits["waits"][0];
    assert_eq!(
        (&all["partition"], &all["wait"]["count"], &all["release"]["count"]),
        (&"main".into(), &4.into(), &4.into())
    );
    let of = |key: &str| all["wait"][key].as_f64().unwrap();
    assert!(of("p50") <= of("p99") && of("p99") <= of("max") && of("max") > 1.0, "{all}");
    let counts: Vec<u64> =
        all["wait"]["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(
        (counts.len(), counts.iter().sum::<u64>()),
        (waits["bounds"].as_array().unwrap().len() + 1, 4)
    );
    assert!(all["release"]["max"].as_f64().unwrap() < 30.0, "{all}");
    let table = lab.say("gqacct waits").ok();
    assert!(table.contains("WAIT-50%") && table.contains("main"), "{table}");
    let csv = lab.say("gqacct waits --by=all --csv").ok();
    assert!(csv.starts_with("tasks,wait_p50,") && csv.lines().count() == 2, "{csv}");
}

#[test]
fn a_job_is_shown_with_all_that_is_kept_of_it() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("-J whole --comment=because --retry=1 --export=ALL,COLOUR=blue", "[ $GQ_RUN = 2 ]");
    assert_eq!(job.ended(), End::Completed);
    let shown = acct(&lab, &format!("show {}", job.id));
    assert_eq!(
        (&shown["jobs"][0]["comment"], &shown["request"]["name"]),
        (&"because".into(), &"whole".into())
    );
    assert!(shown["script"].as_str().unwrap().contains("GQ_RUN = 2"), "{shown}");
    let env = shown["environment"].as_array().unwrap();
    assert!(env.contains(&"COLOUR=blue".into()), "{shown}");
    let states: Vec<&Value> = shown["runs"].as_array().unwrap().iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["FAILED", "COMPLETED"]);
    assert!(shown["runs"][1]["used"]["released"].is_number());
    let text = lab.say(&format!("gqacct show {}", job.id)).ok();
    for words in ["run 1:", "run 2:", "COLOUR=blue", "  comment: because", "  reason: NonZeroExitCode"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let waits = lab.submit("-H", "true");
    assert!(lab.say(&format!("gqacct show {}", waits.id)).ok().contains("state: PENDING"));
    lab.say("gqacct show 4000").refused(4);
}

/// The tags and texts of a page: every tag is closed in its turn, and nothing in it is a script or comes from elsewhere.
fn read_page(page: &str) -> (Vec<String>, String) {
    use html5gum::{Token, Tokenizer};
    const VOID: [&[u8]; 1] = [b"meta"];
    let (mut open, mut seen, mut texts) = (Vec::new(), Vec::new(), String::new());
    for token in Tokenizer::new(page).map(|token| token.unwrap()) {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                for (attribute, value) in &tag.attributes {
                    let (attribute, value) =
                        (String::from_utf8_lossy(attribute), String::from_utf8_lossy(value));
                    assert!(!attribute.starts_with("on"), "{name} {attribute}");
                    assert!(
                        !["src", "href", "xlink:href", "action", "srcset"].contains(&&*attribute),
                        "{name} {attribute}"
                    );
                    assert!(
                        !value.contains("url(") && !value.contains("javascript:"),
                        "{name} {attribute}={value}"
                    );
                }
                assert!(
                    !["script", "link", "iframe", "object", "img", "foreignobject"].contains(&name.as_str()),
                    "{name}"
                );
                if !VOID.contains(&&tag.name[..]) {
                    open.push(name.clone());
                }
                seen.push(name);
            }
            Token::EndTag(tag) => {
                assert_eq!(open.pop().map(String::into_bytes), Some(tag.name.to_vec()), "{open:?}");
            }
            Token::String(text) => texts.push_str(&String::from_utf8_lossy(&text)),
            Token::Error(error) => panic!("{error:?}"),
            Token::Comment(_) | Token::Doctype(_) => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    (seen, texts)
}

#[test]
fn a_report_is_a_page_that_stands_by_itself() {
    let lab = Lab::with_cards(2);
    for options in ["--gpus=1", "--gpus=2", ""] {
        assert_eq!(lab.submit(options, "true").ended(), End::Completed);
    }
    let table = lab.say("gqacct report -S today").ok();
    for words in ["PARTITION", "USER", "TIME", "CARD-HOURS", "WAIT-50%", "RELEASE-50%", "main"] {
        assert!(table.contains(words), "{words}\n{table}");
    }
    let report = acct(&lab, "report -S today");
    assert_eq!(
        (&report["partitions"][0]["partition"], &report["partitions"][0]["runs"]),
        (&"main".into(), &3.into())
    );
    assert_eq!(
        (&report["users"][0]["wait"]["count"], &report["times"][0]["release"]["count"]),
        (&3.into(), &3.into())
    );
    let file = lab.work("report.html");
    assert_eq!(lab.run("gqacct", &["report", "-S", "today", "--html", file.to_str().unwrap()]).ok(), "");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(!page.contains("http"), "nothing from elsewhere");
    let (tags, texts) = read_page(&page);
    let count = |name: &str| tags.iter().filter(|tag| *tag == name).count();
    assert_eq!((count("svg"), count("table"), count("h1")), (3, 3, 1));
    for words in ["n1:0", "n1:1", "in main", "card-hours", "% held"] {
        assert!(texts.contains(words), "{words}\n{page}");
    }
    assert!(lab.say("gqacct report -E yesterday").refused(2).contains("--start is missing"));
    let nowhere = lab.work("no/such/folder");
    let words = ["report", "-S", "today", "--html", nowhere.to_str().unwrap()];
    assert!(lab.run("gqacct", &words).refused(1).contains("cannot write"));
}

/// Measures a page as a browser lays it out: what is wider than the window, pictures without size, and texts that stick out of their picture. Written
/// into the page's title.
const MEASURE: &str = r#"<script>
const wrong = [];
const page = document.documentElement;
if (page.scrollWidth > innerWidth) wrong.push(`the page is ${page.scrollWidth} wide, the window ${innerWidth}`);
const pictures = [...document.querySelectorAll("svg")];
for (const picture of pictures) {
    const box = picture.getBoundingClientRect();
    if (box.width < 200 || box.height < 15) wrong.push(`a picture of ${box.width} x ${box.height}`);
    for (const text of picture.querySelectorAll("text")) {
        const at = text.getBoundingClientRect();
        const out = at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1;
        if (out || at.width < 1) wrong.push(`the text ${text.textContent} sticks out of its picture`);
    }
}
const marks = pictures.map(picture => picture.querySelectorAll("rect, path, line, circle, polyline").length);
const color = getComputedStyle(document.body).color;
document.title = JSON.stringify({pictures: pictures.length, marks, color, wrong});
</script>"#;

/// The report as a real browser shows it, narrow and wide. With `GQ_PICTURE` a picture of it is left there, to be looked at.
#[test]
fn a_browser_shows_the_report_whole() {
    let names =
        ["chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&str| std::process::Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = names.into_iter().find(is_there) else {
        return eprintln!("left out: no Chromium here, such as Debian's chromium-headless-shell");
    };
    let lab = Lab::with_cards(2);
    let long = "x".repeat(200);
    for options in ["--gpus=1", "--gpus=2 -J train", "", &format!("--gpus=1 -J {long}")] {
        lab.submit(options, "true").ended();
    }
    lab.submit("--array=0-3 --gpus=1", "true").over();
    let file = lab.work("report.html");
    lab.run("gqacct", &["report", "-S", "today", "--html", file.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(&file).unwrap();
    let measured = lab.file("measured.html", page.replacen("</body>", &format!("{MEASURE}</body>"), 1));
    let profile = tempfile::tempdir().unwrap();
    let look = |width: u32, how: &str, page: &std::path::Path| {
        let mut command = std::process::Command::new(browser);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
        ]);
        command
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},1600"));
        command.arg(how).arg(format!("file://{}", page.display()));
        crate::lab::finish(&mut command)
    };
    for width in [600, 1400] {
        let dom = look(width, "--dump-dom", &measured).ok();
        let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).unwrap().0;
        let told: Value = serde_json::from_str(&title.replace("&amp;", "&").replace("&lt;", "<"))
            .unwrap_or_else(|e| panic!("{e}: {title}"));
        assert_eq!((&told["pictures"], &told["wrong"]), (&3.into(), &json!([])), "{width}: {told}");
        assert!(told["marks"].as_array().unwrap().iter().all(|marks| marks.as_u64() > Some(0)), "{told}");
    }
    if let Some(picture) = std::env::var_os("GQ_PICTURE") {
        look(1400, &format!("--screenshot={}", picture.display()), &file).ok();
    }
}
