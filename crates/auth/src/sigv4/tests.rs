use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::access::tests::alice;
use crate::time::from_basic;
use crate::{Access, AccessKey, Caller, Principal, Secret, Session, authenticate};

const NOW: &str = "20261009T123456Z";

fn now() -> UnixTime {
    from_basic(NOW).unwrap()
}

/// A request that a test can change.
#[derive(Clone, Debug)]
struct Sent {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Sent {
    fn list_tables() -> Self {
        let headers = [
            ("host", "localhost:8000"),
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", "DynamoDB_20120810.ListTables"),
        ];
        Self {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            query: String::new(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: "{}".to_owned(),
        }
    }

    /// Signed as the Rust SDK signs.
    fn signed(mut self, key: &AccessKey, token: Option<&str>, at: UnixTime, expires: Option<u64>) -> Self {
        let seconds = u64::try_from(at.seconds()).unwrap();
        let identity =
            Credentials::new(key.id.clone(), key.secret.reveal(), token.map(str::to_owned), None, "test")
                .into();
        let mut settings = SigningSettings::default();
        if let Some(seconds) = expires {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = Some(Duration::from_secs(seconds));
        }
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("eu-west-1")
            .name("dynamodb")
            .time(UNIX_EPOCH + Duration::from_secs(seconds))
            .settings(settings)
            .build()
            .unwrap();
        let uri = format!("http://localhost:8000{}?{}", self.path, self.query);
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let body = SignableBody::Bytes(self.body.as_bytes());
        let signable = SignableRequest::new(&self.method, uri, headers, body).unwrap();
        let (instructions, _) = sign(signable, &params.into()).unwrap().into_parts();
        let (new_headers, new_params) = instructions.into_parts();
        self.headers.extend(new_headers.iter().map(|h| (h.name().to_owned(), h.value().to_owned())));
        for (name, value) in new_params {
            let mut encoded = Vec::new();
            canonical::encode(&mut encoded, value.as_bytes());
            let joint = if self.query.is_empty() { "" } else { "&" };
            self.query += &format!("{joint}{name}={}", String::from_utf8(encoded).unwrap());
        }
        self
    }

    fn with<T>(&self, check: impl FnOnce(&HttpRequest<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        check(&HttpRequest {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &headers,
            body: self.body.as_bytes(),
        })
    }

    fn header(&mut self, name: &str) -> &mut String {
        let found = self.headers.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name));
        &mut found.unwrap().1
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    fn authenticate<'a>(&self, access: &'a Access, now: UnixTime) -> Result<Caller<'a>, Error> {
        self.with(|http| authenticate(http, access, now))
    }
}

fn access() -> Access {
    Access::new(vec![alice()]).unwrap()
}

fn key() -> AccessKey {
    alice().keys.remove(0)
}

/// A request of alice that is signed now, in its header.
fn signed() -> Sent {
    Sent::list_tables().signed(&key(), None, now(), None)
}

fn refused(sent: &Sent) -> Error {
    sent.authenticate(&access(), now()).unwrap_err()
}

#[test]
fn aws_s_own_vectors_are_right() {
    let suite: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/fixtures/aws-signing-test-suite.json")).unwrap();
    let suite = suite.as_array().unwrap();
    // Of the suite, what can happen here: paths are normalized, no header goes over several lines, and no token is
    // added to an address after it was signed.
    assert_eq!(suite.len(), 59);
    for vector in suite {
        let text = |name: &str| vector[name].as_str().unwrap();
        let (head, body) = text("request").split_once("\n\n").unwrap_or((text("request"), ""));
        let mut lines = head.lines();
        let line = lines.next().unwrap().strip_suffix(" HTTP/1.1").unwrap();
        let (method, target) = line.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = lines.filter_map(|line| line.split_once(':'));
        let sent = Sent {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.to_owned(),
        };
        sent.with(|http| {
            let claim = Claim::of(http).unwrap();
            claim.check_for(http, "service", from_basic("20150830T123600Z").unwrap()).unwrap();
            let canonical = String::from_utf8(canonical::request(http, &claim.signed_headers)).unwrap();
            assert_eq!(canonical, text("canonical"), "{}", text("name"));
            claim.verify(http, text("secret")).unwrap();
            claim.verify(http, "another secret").unwrap_err();
        });
    }
}

#[test]
fn what_botocore_signs_is_right() {
    all_are_right(include_str!("../../tests/fixtures/botocore_signatures.json"));
}

#[test]
fn what_the_javascript_sdk_signs_is_right() {
    all_are_right(include_str!("../../tests/fixtures/sdk_js_signatures.json"));
}

/// Every request of a fixture is right, and not once its body is another.
fn all_are_right(fixture: &str) {
    let file: serde_json::Value = serde_json::from_str(fixture).unwrap();
    let secret = file["secret"].as_str().unwrap();
    let at = from_basic(file["now"].as_str().unwrap()).unwrap();
    for request in file["requests"].as_array().unwrap() {
        let text = |name: &str| request[name].as_str().unwrap().to_owned();
        let header = |pair: &serde_json::Value| {
            (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned())
        };
        let mut sent = Sent {
            method: text("method"),
            path: text("path"),
            query: text("query"),
            headers: request["headers"].as_array().unwrap().iter().map(header).collect(),
            body: text("body"),
        };
        sent.with(|http| {
            let claim = Claim::of(http).unwrap();
            claim.check(http, at).unwrap();
            assert_eq!(claim.key_id(), file["key"].as_str().unwrap());
            assert_eq!(claim.token(), request["token"].as_str(), "{}", text("name"));
            claim.verify(http, secret).unwrap_or_else(|error| panic!("{}: {error}", text("name")));
        });
        sent.body.push(' ');
        sent.with(|http| Claim::of(http).unwrap().verify(http, secret).unwrap_err());
    }
}

#[test]
fn what_the_rust_sdk_signs_is_right() {
    let caller = signed().authenticate(&access(), now()).unwrap().key_id;
    assert_eq!(caller, key().id);
    let presigned = Sent::list_tables().signed(&key(), None, now(), Some(3600));
    assert!(presigned.authenticate(&access(), now()).unwrap().is_presigned);
}

#[test]
fn a_key_that_has_signed_before_is_held_against_each_request() {
    let access = access();
    let check = |sent: &Sent| sent.authenticate(&access, now()).map(|_| ());
    assert_eq!((check(&signed()), check(&signed())), (Ok(()), Ok(())));
    let changed = Sent { body: "{ }".to_owned(), ..signed() };
    assert_eq!(check(&changed).unwrap_err().code(), "InvalidSignatureException");
    let tomorrow = UnixTime::from_seconds(now().seconds() + 86_400);
    let sent = Sent::list_tables().signed(&key(), None, tomorrow, None);
    assert!(sent.authenticate(&access, tomorrow).is_ok());
    assert!(!format!("{access:?}").contains("signing_keys: SigningKeys({"));
}

#[test]
fn we_sign_as_the_rust_sdk_does() {
    for token in [None, Some("a token")] {
        let request = Sent::list_tables();
        let theirs = request.clone().signed(&key(), token, now(), None);
        let ours = request.with(|http| super::sign(http, &key(), token, "eu-west-1", now()));
        for (name, value) in ours {
            assert_eq!(theirs.clone().header(name), &value, "{name}");
        }
    }
}

#[test]
fn the_caller_is_whose_key_it_is() {
    let bob = Principal { name: "bob".to_owned(), keys: vec![AccessKey::generate(&[2; 40])], ..alice() };
    let access = Access::new(vec![alice(), bob.clone()]).unwrap();
    let sent = Sent::list_tables().signed(&bob.keys[0], None, now(), None);
    let caller = sent.authenticate(&access, now()).unwrap();
    assert_eq!((caller.principal, caller.region.as_str()), (&bob, "eu-west-1"));
    assert!(!caller.is_session && !caller.is_presigned);
}

#[test]
fn a_session_signs_with_its_own_key_and_token() {
    let parent = key();
    let session = Session::open(&parent, from_basic("20261009T133456Z").unwrap(), &[9; 16]);
    let token = Some(session.token.reveal());
    for expires in [None, Some(60)] {
        let sent = Sent::list_tables().signed(&session.key, token, now(), expires);
        let access = access();
        let caller = sent.authenticate(&access, now()).unwrap();
        assert_eq!(caller.principal.name, "alice");
        assert!(caller.is_session);
    }
    // Neither the token with the parent's key, nor the session's key without its token.
    let mixed = Sent::list_tables().signed(&parent, token, now(), None);
    assert_eq!(refused(&mixed), Error::UnrecognizedClient);
    let bare = Sent::list_tables().signed(&session.key, None, now(), None);
    assert_eq!(refused(&bare), Error::UnrecognizedClient);
    // And not once it is over.
    let late = from_basic("20261009T133457Z").unwrap();
    let sent = Sent::list_tables().signed(&session.key, token, late, None);
    assert_eq!(sent.authenticate(&access(), late).unwrap_err(), Error::ExpiredToken);
}

#[test]
fn whatever_is_signed_cannot_be_changed() {
    type Change = fn(&mut Sent);
    let changes: [(&str, Change); 8] = [
        ("method", |sent| sent.method = "PUT".to_owned()),
        ("path", |sent| sent.path = "/other".to_owned()),
        ("query", |sent| sent.query = "a=b".to_owned()),
        ("body", |sent| sent.body = "{ }".to_owned()),
        ("host", |sent| *sent.header("host") = "other".to_owned()),
        ("target", |sent| *sent.header("x-amz-target") = "DynamoDB_20120810.DeleteTable".to_owned()),
        ("second target", |sent| sent.headers.push(("X-Amz-Target".to_owned(), "x".to_owned()))),
        ("signature", |sent| sent.header("authorization").replace_range(220.., "0")),
    ];
    for (what, change) in changes {
        let mut sent = signed();
        change(&mut sent);
        assert_eq!(refused(&sent).code(), "InvalidSignatureException", "{what}");
    }
    // Spelling is not content.
    let mut sent = signed();
    *sent.header("content-type") = "  application/x-amz-json-1.0\t ".to_owned();
    sent.headers.reverse();
    sent.headers.iter_mut().for_each(|(name, _)| *name = name.to_uppercase());
    sent.headers.push(("x-unsigned".to_owned(), "anything".to_owned()));
    sent.authenticate(&access(), now()).unwrap();
}

#[test]
fn a_payload_cannot_be_left_unsigned() {
    let mut sent = Sent::list_tables();
    sent.headers.push(("x-amz-content-sha256".to_owned(), "UNSIGNED-PAYLOAD".to_owned()));
    let key = key();
    let mut sent = sent.signed(&key, None, now(), None);
    // The header is signed like any other, and the body all the same.
    sent.authenticate(&access(), now()).unwrap();
    sent.body = "{\"Limit\": 1}".to_owned();
    assert_eq!(refused(&sent).code(), "InvalidSignatureException");
}

#[test]
fn a_signature_is_good_for_fifteen_minutes_around_its_date() {
    let shift = |seconds: i64| UnixTime::from_seconds(now().seconds() + seconds);
    for (seconds, is_good) in [(-901, false), (-900, true), (0, true), (900, true), (901, false)] {
        let sent = Sent::list_tables().signed(&key(), None, shift(seconds), None);
        assert_eq!(sent.authenticate(&access(), now()).is_ok(), is_good, "{seconds}");
    }
    let old = refused(&Sent::list_tables().signed(&key(), None, shift(-1_200), None));
    assert_snapshot!(old, @"Signature expired: 20261009T121456Z is now earlier than 20261009T121956Z (20261009T123456Z - 15 min.)");
    let future = refused(&Sent::list_tables().signed(&key(), None, shift(1_200), None));
    assert_snapshot!(future, @"Signature not yet current: 20261009T125456Z is still later than 20261009T124956Z (20261009T123456Z + 15 min.)");
    assert_eq!((old.code(), future.code()), ("InvalidSignatureException", "InvalidSignatureException"));
}

#[test]
fn a_presigned_address_is_good_for_as_long_as_it_says() {
    let shift = |seconds: i64| UnixTime::from_seconds(now().seconds() + seconds);
    let sent = Sent::list_tables().signed(&key(), None, now(), Some(7_200));
    for (seconds, is_good) in [(-901, false), (-900, true), (0, true), (7_200, true), (7_201, false)] {
        assert_eq!(sent.authenticate(&access(), shift(seconds)).is_ok(), is_good, "{seconds}");
    }
    // It may be used again until then.
    sent.authenticate(&access(), shift(10)).unwrap();
    let late = sent.authenticate(&access(), shift(7_201)).unwrap_err();
    assert_snapshot!(late, @"Signature expired: 20261009T123456Z is now earlier than 20261009T123457Z (20261009T143457Z - 120 min.)");
    let odd = Sent::list_tables().signed(&key(), None, now(), Some(90));
    let late = odd.authenticate(&access(), shift(91)).unwrap_err();
    assert_snapshot!(late, @"Signature expired: 20261009T123456Z is now earlier than 20261009T123457Z (20261009T123627Z - 90 sec.)");
    for expires in ["-1", "604801", "soon"] {
        let mut sent = Sent::list_tables().signed(&key(), None, now(), Some(90));
        sent.query = sent.query.replace("X-Amz-Expires=90", &format!("X-Amz-Expires={expires}"));
        let expected = "'X-Amz-Expires' must be a number of seconds from 0 to 604800. Re-examine the query-string parameters.";
        assert_eq!(refused(&sent).to_string(), expected);
    }
}

#[test]
fn without_a_signature_there_is_no_token() {
    let mut bearer = Sent::list_tables();
    bearer.headers.push(("Authorization".to_owned(), "Bearer abc".to_owned()));
    for sent in [Sent::list_tables(), bearer] {
        let error = refused(&sent);
        assert_eq!((error.code(), error.status()), ("MissingAuthenticationTokenException", 400));
        assert_eq!(error.to_string(), "Request is missing Authentication Token");
    }
}

#[test]
fn a_key_that_nobody_has_is_not_recognized() {
    let other = AccessKey { id: "LKIANOBODYNOBODY2222".to_owned(), secret: Secret::new("x") };
    let error = refused(&Sent::list_tables().signed(&other, None, now(), None));
    assert_eq!(
        (error.code(), error.namespace()),
        ("UnrecognizedClientException", "com.amazon.coral.service")
    );
    assert_snapshot!(error, @"The security token included in the request is invalid.");
}

#[test]
fn a_wrong_secret_is_told_what_should_have_been_signed() {
    let wrong = AccessKey { secret: Secret::new("wrong"), ..key() };
    let error = refused(&Sent::list_tables().signed(&wrong, None, now(), None));
    assert_eq!(error.code(), "InvalidSignatureException");
    assert_snapshot!(error, @r"
    The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.

    The Canonical String for this request should have been
    'POST
    /

    content-type:application/x-amz-json-1.0
    host:localhost:8000
    x-amz-date:20261009T123456Z
    x-amz-target:DynamoDB_20120810.ListTables

    content-type;host;x-amz-date;x-amz-target
    44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'

    The String-to-Sign should have been
    'AWS4-HMAC-SHA256
    20261009T123456Z
    20261009/eu-west-1/dynamodb/aws4_request
    9fcc531073df38a7471743cb0fa81010ec42023d90e48782d49822b7b0c8e106'
    ");
}

/// The `Authorization` header of a request, and what is said of it.
fn said(authorization: &str) -> String {
    let mut sent = signed();
    *sent.header("authorization") = authorization.to_owned();
    let error = refused(&sent);
    format!("{}: {error}", error.code())
}

#[test]
fn missing_parts_are_named() {
    assert_snapshot!(said("AWS4-HMAC-SHA256"), @"IncompleteSignatureException: Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders' parameter. Authorization=AWS4-HMAC-SHA256");
    assert_snapshot!(said("AWS4-HMAC-SHA256 Credential=a/b/c/d/e, Signature=x"), @"IncompleteSignatureException: Authorization header requires 'SignedHeaders' parameter. Authorization=AWS4-HMAC-SHA256 Credential=a/b/c/d/e, Signature=x");
    assert_snapshot!(said("AWS4-HMAC-SHA256 Credential"), @"IncompleteSignatureException: 'Credential' not a valid key=value pair (missing equal-sign) in Authorization header: 'AWS4-HMAC-SHA256 Credential'.");
    assert_snapshot!(said("AWS4-HMAC-SHA256 Credential=a/b/c/d, SignedHeaders=host, Signature=x"), @"IncompleteSignatureException: Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'a/b/c/d'");
    assert_snapshot!(said("AWS4-HMAC-SHA256 Credential=a, Credential=b"), @"IncompleteSignatureException: Authorization header has more than one 'Credential' parameter. Authorization=AWS4-HMAC-SHA256 Credential=a, Credential=b");
    let many =
        format!("AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders={}, Signature=x", "h;".repeat(256));
    assert_snapshot!(said(&many), @"IncompleteSignatureException: 'SignedHeaders' must name at most 256 headers.");
    let undated = refused(&signed().without("x-amz-date"));
    assert!(
        undated.to_string().starts_with(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. Authorization=AWS4-HMAC-SHA256 Credential="
        ),
        "{undated}"
    );
    let mut sent = signed();
    *sent.header("x-amz-date") = "2026-10-09T12:34:56Z".to_owned();
    assert_snapshot!(refused(&sent), @"Date must be in ISO-8601 'basic format'. Got '2026-10-09T12:34:56Z'. See http://en.wikipedia.org/wiki/ISO_8601");
    let mut sent = signed();
    sent.headers.push(("x-amz-date".to_owned(), NOW.to_owned()));
    assert_eq!(refused(&sent).code(), "IncompleteSignatureException");
    let sent = Sent { query: "X-Amz-Algorithm".to_owned(), ..Sent::list_tables() };
    assert_snapshot!(refused(&sent), @"AWS query-string parameters must include 'X-Amz-Algorithm'. AWS query-string parameters must include 'X-Amz-Credential'. AWS query-string parameters must include 'X-Amz-Signature'. AWS query-string parameters must include 'X-Amz-SignedHeaders'. AWS query-string parameters must include 'X-Amz-Date'. Re-examine the query-string parameters.");
    let mut twice = Sent::list_tables().signed(&key(), None, now(), Some(60));
    twice.query += "&X-Amz-Expires=600000";
    assert_snapshot!(refused(&twice), @"AWS query-string parameters must include 'X-Amz-Expires' only once. Re-examine the query-string parameters.");
}

#[test]
fn both_places_at_once_are_refused() {
    let sent = Sent { query: "X-Amz-Algorithm=AWS4-HMAC-SHA256".to_owned(), ..signed() };
    assert_eq!(refused(&sent).code(), "InvalidSignatureException");
    assert_snapshot!(refused(&sent), @"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.");
}

#[test]
fn a_scope_is_of_this_service_region_and_day() {
    let scoped = |scope: &str, headers: &str| {
        said(&format!("AWS4-HMAC-SHA256 Credential=key/{scope}, SignedHeaders={headers}, Signature=x"))
    };
    let all = "host;x-amz-target";
    assert_snapshot!(scoped("b/c:*/d/e", all), @"InvalidSignatureException: Credential should be scoped to a valid region, not 'c:*'. Credential should be scoped to correct service: 'dynamodb'. Credential should be scoped with a valid terminator: 'aws4_request', not 'e'. Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: 'b' != '20261009', from '20261009T123456Z'.");
    assert_snapshot!(scoped("20261009/local/s3/aws4_request", all), @"InvalidSignatureException: Credential should be scoped to correct service: 'dynamodb'. ");
    assert_snapshot!(scoped("20261008/local/dynamodb/aws4_request", all), @"InvalidSignatureException: Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '20261008' != '20261009', from '20261009T123456Z'.");
    assert_snapshot!(scoped("20261009/local/dynamodb/aws4_request/", all), @"UnrecognizedClientException: The security token included in the request is invalid.");
    let good = "20261009/local/dynamodb/aws4_request";
    assert_snapshot!(scoped(good, "x-amz-target"), @"InvalidSignatureException: 'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.");
    assert_snapshot!(scoped(good, "host"), @"InvalidSignatureException: 'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.");
    assert_snapshot!(scoped(good, "Host;X-Amz-Target;x-gone"), @"InvalidSignatureException: 'x-gone' is a 'SignedHeader' in the AWS Authorization but not in the request.");
    assert_snapshot!(said("AWS4-HMAC-SHA25 Credential=a/b/c/d/e, SignedHeaders=host;x-amz-target, Signature=x"), @"IncompleteSignatureException: Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA25' (only AWS4-HMAC-SHA256 for now). ");
}

proptest! {
    #[test]
    fn any_request_that_is_signed_is_right(
        path in "(/[a-zA-Z0-9._~%!$-]{0,6}){1,3}",
        names in prop::collection::vec("[a-z]{1,4}", 0..4),
        values in prop::collection::vec("[ -~]{0,8}", 4),
        body in ".{0,40}",
        expires in prop::option::of(1u64..604_800),
    ) {
        let mut sent = Sent { path: path.replace('%', "%41"), body, ..Sent::list_tables() };
        for (name, value) in names.iter().zip(&values) {
            sent.headers.push((format!("x-amz-meta-{name}"), value.clone()));
            let mut encoded = Vec::new();
            canonical::encode(&mut encoded, value.as_bytes());
            let joint = if sent.query.is_empty() { "" } else { "&" };
            sent.query += &format!("{joint}{name}={}", String::from_utf8(encoded).unwrap());
        }
        let sent = sent.signed(&key(), None, now(), expires);
        let caller = sent.authenticate(&access(), now()).map(|caller| caller.key_id);
        prop_assert_eq!(caller, Ok(key().id));
    }
}
