use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::*;
use crate::access::Principal;
use crate::access::tests::alice;

/// The facts that a test gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<String, Vec<String>>);

impl Facts for Given {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        self.0.get(key).cloned()
    }
}

impl<const N: usize> From<[(&str, &[&str]); N]> for Given {
    fn from(facts: [(&str, &[&str]); N]) -> Self {
        let facts = facts.into_iter().map(|(key, values)| {
            (key.to_lowercase(), values.iter().map(|value| (*value).to_owned()).collect())
        });
        Self(facts.collect())
    }
}

fn identity(statement: &str) -> Result<Policy, PolicyError> {
    Policy::identity(&format!(r#"{{"Version": "2012-10-17", "Statement": {statement}}}"#))
}

fn fault(statement: &str) -> String {
    identity(statement).unwrap_err().to_string()
}

/// What is wrong with a statement that is good but for these members.
fn fault_with(members: &str) -> String {
    fault(&format!(r#"{{"Effect": "Allow", "Action": "*", "Resource": "*", {members}}}"#))
}

fn fault_of_resource(members: &str) -> String {
    let text = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Action": "*", "Resource": "*" {members}}}}}"#
    );
    Policy::resource(&text).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_document_is_named() {
    let of = |text: &str| Policy::identity(text).unwrap_err().to_string();
    assert_snapshot!(of(""), @"the policy: it cannot be read: EOF while parsing a value at line 1 column 0. Mend it there.");
    assert_snapshot!(of("[]"), @"the policy: it is a list, not an object. It has Version, Id, Statement.");
    assert_snapshot!(of("{}"), @"the policy: Statement is missing. A policy is made of statements: add one.");
    assert_snapshot!(of(r#"{"version": "2012-10-17"}"#), @"the policy: `version` is not an element of it. It is written Version.");
    assert_snapshot!(of(r#"{"Statements": []}"#), @"the policy: `Statements` is not an element of it. It has Version, Id, Statement.");
    assert_snapshot!(of(r#"{"Version": "2026-01-01", "Statement": []}"#), @r#"the policy: Version is 2026-01-01. Write "2012-10-17": it names the language, not your policy."#);
    assert_snapshot!(of(r#"{"Id": 5, "Statement": []}"#), @"the policy: Id is a number. Write a string.");
    assert_snapshot!(of(r#"{"Statement": [], "Statement": []}"#), @"the policy: it cannot be read: `Statement` is there twice at line 1 column 29. Mend it there.");
    assert_snapshot!(of(&format!(r#"{{"Id": "{}"}}"#, "x".repeat(POLICY_BYTES_MAX))), @"the policy: it has 20490 bytes, and 20480 is the most. Use wildcards, or several policies.");
    let deep = of(&format!(r#"{{"Statement": {}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000)));
    assert_snapshot!(deep, @"the policy: it cannot be read: recursion limit exceeded at line 1 column 141. Mend it there.");
}

#[test]
fn what_is_wrong_with_a_statement_is_named() {
    assert_snapshot!(fault("5"), @"statement 1: it is a number, not an object. It has Sid, Effect, Principal, NotPrincipal, Action, NotAction, Resource, NotResource, Condition.");
    assert_snapshot!(fault("[[]]"), @"statement 1: it is a list, not an object. It has Sid, Effect, Principal, NotPrincipal, Action, NotAction, Resource, NotResource, Condition.");
    assert_snapshot!(fault(r#"{"Action": "*", "Resource": "*"}"#), @r#"statement 1: Effect is missing. Write "Allow" or "Deny"."#);
    assert_snapshot!(fault(r#"{"Effect": "ALLOW", "Action": "*", "Resource": "*"}"#), @r#"statement 1: Effect is ALLOW. Write "Allow" or "Deny"."#);
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Resource": "*"}"#), @r#"statement 1: Action is missing. Add "Action", or "NotAction"."#);
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": "*"}"#), @r#"statement 1: Resource is missing. Add "Resource", or "NotResource"."#);
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": [], "Resource": "*"}"#), @r#"statement 1, Action: it is empty. Name at least one, or "*" for all."#);
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": ["GetItem"], "Resource": "*"}"#), @"statement 1, Action: `GetItem` is not an action. Write the service, a colon and the operation, such as dynamodb:GetItem or dynamodb:Batch*.");
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": "dynamodb:${aws:username}", "Resource": "*"}"#), @"statement 1, Action: `dynamodb:${aws:username}` is not an action. Write the service, a colon and the operation, such as dynamodb:GetItem or dynamodb:Batch*.");
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": "*", "Resource": ["orders"]}"#), @r#"statement 1, Resource: `orders` is neither an ARN nor "*". Write an ARN such as arn:aws:dynamodb:us-east-1:123456789012:table/orders, or "*"."#);
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": "*", "Resource": 5}"#), @"statement 1, Resource: it has a number. Write a string or a list of strings.");
    assert_snapshot!(fault(r#"{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:dynamodb:*:*:table/${aws:username"}"#), @"statement 1, NotResource: the variable in `arn:aws:dynamodb:*:*:table/${aws:username` does not end. Close it, or write ${$} for a dollar sign.");
    assert_snapshot!(fault_with(r#""NotAction": "*""#), @"statement 1: Action and NotAction are both there. Keep one of them.");
    assert_snapshot!(fault_with(r#""NotResource": "*""#), @"statement 1: Resource and NotResource are both there. Keep one of them.");
    assert_snapshot!(fault_with(r#""Sid": "two words""#), @"statement 1: the Sid `two words` has other characters than letters and digits. Leave them out.");
    assert_snapshot!(fault_with(r#""effect": "Deny""#), @"statement 1: `effect` is not an element of it. It is written Effect.");
    assert_snapshot!(fault_with(r#""Principal": "*""#), @"statement 1: Principal is for policies of resources. The policy of a principal is about that principal: leave it out.");
    let twice = r#"{"Sid": "A", "Effect": "Allow", "Action": "*", "Resource": "*"}"#;
    assert_snapshot!(fault(&format!("[{twice}, {twice}]")), @"the policy, statement 2: the Sid `A` is there twice. Give each statement its own, or none.");
}

#[test]
fn what_is_wrong_with_a_condition_is_named() {
    let condition = |json: &str| fault_with(&format!(r#""Condition": {json}"#));
    assert_snapshot!(condition("[]"), @"statement 1, Condition: it is a list. Write an object of operators.");
    assert_snapshot!(condition(r#"{"StringEquals": "x"}"#), @"statement 1, Condition, StringEquals: it is a string. Write an object of condition keys.");
    assert_snapshot!(condition(r#"{"stringequals": {"aws:username": "x"}}"#), @"statement 1, Condition, stringequals, aws:username: `stringequals` is not a condition operator. IAM's operators are String…, Numeric…, Date…, Bool, BinaryEquals, IpAddress, NotIpAddress, Arn… and Null; their case matters.");
    assert_snapshot!(condition(r#"{"ForSomeValues:StringEquals": {"aws:username": "x"}}"#), @"statement 1, Condition, ForSomeValues:StringEquals, aws:username: `ForSomeValues` is not a set operator. Write ForAllValues: or ForAnyValue: before an operator.");
    assert_snapshot!(condition(r#"{"NullIfExists": {"aws:username": "true"}}"#), @"statement 1, Condition, NullIfExists, aws:username: `NullIfExists` is not an operator. It already asks whether the key is there: write Null.");
    assert_snapshot!(condition(r#"{"StringEquals": {"LeadingKeys": "x"}}"#), @"statement 1, Condition, StringEquals, LeadingKeys: `LeadingKeys` is not a condition key. Write it with its service, such as aws:SourceIp or dynamodb:LeadingKeys.");
    assert_snapshot!(condition(r#"{"StringEquals": {"aws:username": {"a": 1}}}"#), @"statement 1, Condition, StringEquals, aws:username: a value is an object. Write a string, a number, a boolean, or a list of those.");
    assert_snapshot!(condition(r#"{"StringEquals": {"aws:username": null}}"#), @"statement 1, Condition, StringEquals, aws:username: a value is null. Write a string, a number, a boolean, or a list of those.");
    assert_snapshot!(condition(r#"{"NumericEquals": {"app:n": "ten"}}"#), @"statement 1, Condition, NumericEquals, app:n: `ten` does not fit the operator. Write a number, such as 10 or 0.5.");
    assert_snapshot!(condition(r#"{"DateLessThan": {"aws:CurrentTime": "tomorrow"}}"#), @"statement 1, Condition, DateLessThan, aws:CurrentTime: `tomorrow` does not fit the operator. Write a date, such as 2026-10-09T12:00:00Z.");
    assert_snapshot!(condition(r#"{"Bool": {"aws:SecureTransport": "yes"}}"#), @r#"statement 1, Condition, Bool, aws:SecureTransport: `yes` does not fit the operator. Write "true" or "false"."#);
    assert_snapshot!(condition(r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/33"}}"#), @"statement 1, Condition, IpAddress, aws:SourceIp: `10.0.0.0/33` does not fit the operator. Write an address or a range, such as 203.0.113.0/24 or 2001:db8::/32.");
    assert_snapshot!(condition(r#"{"ArnLike": {"aws:PrincipalArn": "alice"}}"#), @"statement 1, Condition, ArnLike, aws:PrincipalArn: `alice` does not fit the operator. Write an ARN of six parts, such as arn:aws:iam::123456789012:user/*.");
    assert_snapshot!(condition(r#"{"BinaryEquals": {"app:b": "?"}}"#), @"statement 1, Condition, BinaryEquals, app:b: `?` does not fit the operator. Write base64.");
    assert_snapshot!(condition(r#"{"StringLike": {"app:b": "${"}}"#), @"statement 1, Condition, StringLike, app:b: `${` does not fit the operator. Write variables as ${aws:username}, and ${$} for a dollar sign: the variable in `${` does not end.");
}

#[test]
fn what_is_wrong_with_a_principal_is_named() {
    assert_snapshot!(fault_of_resource(""), @r#"statement 1: Principal is missing. A policy of a resource says whom it is about: add "Principal"."#);
    assert_snapshot!(fault_of_resource(r#", "Principal": "alice""#), @r#"statement 1, Principal: it is `alice`. Write "*", or an object such as {"AWS": "123456789012"}."#);
    assert_snapshot!(fault_of_resource(r#", "Principal": {"AWS": "alice"}"#), @r#"statement 1, Principal: `alice` is no AWS principal. Write "*", twelve digits, or an ARN such as arn:aws:iam::123456789012:user/alice."#);
    assert_snapshot!(fault_of_resource(r#", "Principal": {"AWS": ["arn:aws:iam::123456789012:user/*"]}"#), @r#"statement 1, Principal: `arn:aws:iam::123456789012:user/*` has a wildcard. Name a whole ARN or account here, and narrow "*" by a condition on aws:PrincipalArn."#);
    assert_snapshot!(fault_of_resource(r#", "Principal": {"aws": "*"}"#), @"statement 1, Principal: `aws` is not a kind of principal. Kinds are AWS, Service, Federated and CanonicalUser.");
    assert_snapshot!(fault_of_resource(r#", "Principal": {"AWS": 5}"#), @"statement 1, Principal: AWS is a number. Write a string or a list of strings.");
    assert_snapshot!(fault_of_resource(r#", "Principal": "*", "NotPrincipal": "*""#), @"statement 1: Principal and NotPrincipal are both there. Keep one of them.");
    assert_snapshot!(fault_of_resource(r#", "NotPrincipal": {"AWS": "123456789012"}"#), @r#"statement 1: NotPrincipal would allow everybody else. It can only deny. Use "Principal" with a condition on aws:PrincipalArn."#);
}

#[test]
fn a_policy_is_written_as_it_was_read() {
    let text = r#"{"Version":"2012-10-17","Statement":[{"Sid":"A","Resource":"*","Effect":"Allow","Action":["dynamodb:Get*"],"Condition":{"Bool":{"aws:SecureTransport":true},"NumericEquals":{"app:n":1}}}]}"#;
    let policy = Policy::identity(text).unwrap();
    assert_eq!(policy.text(), text);
    assert_eq!(Policy::identity(&policy.text()).unwrap(), policy);
}

#[test]
fn a_number_of_many_digits_is_the_same_number_once_written_and_read_again() {
    let text = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*",
        "Condition":{"NumericEquals":{"aws:EpochTime":[121177777777777777777777777777710000,0.1,1e-7]}}}}"#;
    let policy = Policy::identity(text).unwrap();
    assert_eq!(Policy::identity(&policy.text()).unwrap(), policy);
}

#[test]
fn decisions_and_denials_are_told_in_words() {
    let allow = identity(r#"[{"Effect": "Allow", "Action": "dynamodb:G*", "Resource": "*"}, {"Sid": "No", "Effect": "Deny", "Action": "dynamodb:Put*", "Resource": "*"}]"#).unwrap();
    let resource = Policy::resource(r#"{"Statement": [{"Sid": "All of it", "Effect": "Allow", "Principal": "*", "Action": "dynamodb:Get*", "Resource": "*"}, {"Effect": "Deny", "Principal": "*", "Action": "dynamodb:Scan", "Resource": "*"}]}"#).unwrap();
    let principal = Principal { policies: vec![("app".to_owned(), allow)], ..alice() };
    let told = |action: &str, owner: &str, resource_policy| {
        let facts = Given::default();
        let question = Question {
            principal: &principal,
            action,
            resource: "arn:aws:dynamodb:us-east-1:123456789012:table/orders",
            resource_account: owner,
            resource_policy,
            facts: &facts,
        };
        let denial = question.allowed().map_or_else(|denial| format!("\n{denial}"), |()| String::new());
        format!("{}{denial}", decide(&question))
    };
    let (own, other) = ("123456789012", "111122223333");
    assert_snapshot!(told("dynamodb:GetItem", own, None), @"allowed by statement 1 of the policy `app`");
    assert_snapshot!(told("dynamodb:GetItem", other, Some(&resource)), @"allowed by statement 1 of the policy `app` and by statement 1 (All of it) of the resource's policy");
    assert_snapshot!(told("dynamodb:PutItem", own, None), @r"
    denied by statement 2 (No) of the policy `app`
    User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:PutItem on resource: arn:aws:dynamodb:us-east-1:123456789012:table/orders with an explicit deny in an identity-based policy
    ");
    assert_snapshot!(told("dynamodb:Scan", own, Some(&resource)), @r"
    denied by statement 2 of the resource's policy
    User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:Scan on resource: arn:aws:dynamodb:us-east-1:123456789012:table/orders with an explicit deny in a resource-based policy
    ");
    assert_snapshot!(told("dynamodb:Query", own, None), @r"
    denied: no statement allows it
    User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:Query on resource: arn:aws:dynamodb:us-east-1:123456789012:table/orders because no identity-based policy allows the dynamodb:Query action
    ");
    assert_snapshot!(told("dynamodb:GetItem", other, None), @r"
    denied: the resource is of another account, and no statement of its policy allows it
    User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:us-east-1:123456789012:table/orders because no resource-based policy allows the dynamodb:GetItem action
    ");
}
