package upload

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// s3Connection is what a connection of Airflow's type aws, or of type s3, says.
type s3Connection struct {
	accessKey, secretKey, token string
	region, endpoint            string
	bucket, prefix              string
	pathStyle                   bool
	verify                      any
	// unused are options of Airflow that are not acted on.
	unused []string
}

// readS3Connection reads a connection; place is bucket/prefix where the step
// says it.
func readS3Connection(c dag.Connection, place string) (*s3Connection, error) {
	if !slices.Contains([]string{"aws", "s3", "s3a"}, c.Type) { // the login of something else is no access key
		return nil, fmt.Errorf("it is of type %q, and an S3 target needs one of type aws or s3", c.Type)
	}
	text := func(keys ...string) string {
		for _, k := range keys {
			if s, ok := c.Extra[k].(string); ok && strings.TrimSpace(s) != "" {
				return strings.TrimSpace(s)
			}
		}
		return ""
	}
	out := &s3Connection{
		accessKey: cmp.Or(c.Login, text("aws_access_key_id")), secretKey: cmp.Or(c.Password, text("aws_secret_access_key")),
		token: text("aws_session_token", "session_token"), region: text("region_name", "region"),
		endpoint: text("endpoint_url"), verify: c.Extra["verify"],
	}
	style := text("addressing_style")
	service := mapping(mapping(c.Extra, "service_config"), "s3")
	if s, _ := service["endpoint_url"].(string); s != "" {
		out.endpoint = s
	}
	out.bucket, _ = service["bucket_name"].(string)
	out.bucket = cmp.Or(out.bucket, text("bucket_name", "bucket"))
	if s, _ := mapping(mapping(c.Extra, "config_kwargs"), "s3")["addressing_style"].(string); s != "" {
		style = s
	}
	if c.Type == "s3" || c.Type == "s3a" { // s3://key:secret@bucket/prefix
		out.bucket = cmp.Or(out.bucket, c.Host)
		out.prefix = c.Schema
	} else {
		out.bucket = cmp.Or(out.bucket, c.Schema)
		if out.endpoint == "" && strings.Contains(c.Host, "://") { // Airflow's old place for it
			out.endpoint = c.Host
			if c.Port != 0 {
				out.endpoint += ":" + strconv.Itoa(c.Port)
			}
		}
	}
	out.prefix = cmp.Or(text("prefix"), out.prefix)
	if place != "" {
		out.bucket, out.prefix, _ = strings.Cut(place, "/")
	}
	out.prefix = strings.Trim(out.prefix, "/")
	if err := out.check(style); err != nil {
		return nil, err
	}
	for _, k := range []string{"role_arn", "profile_name", "assume_role_method", "assume_role_kwargs"} {
		if v := c.Extra[k]; v != nil && v != "" {
			return nil, fmt.Errorf("%s is not supported: uploads would run as somebody else; give keys of the role itself", k)
		}
	}
	for k := range c.Extra {
		if !slices.Contains(s3Extras(), k) {
			out.unused = append(out.unused, k)
		}
	}
	slices.Sort(out.unused)
	return out, nil
}

func (c *s3Connection) check(style string) error {
	if c.accessKey == "" || c.secretKey == "" {
		return fmt.Errorf("it has no keys: the access key is the login (or aws_access_key_id in the extra), the secret key the password (or aws_secret_access_key)")
	}
	if c.bucket == "" {
		return fmt.Errorf("neither it nor the step's target names a bucket: write target: s3://bucket/prefix")
	}
	if strings.ContainsAny(c.bucket, "/?#@: ") {
		return fmt.Errorf("%q is no name of a bucket", c.bucket)
	}
	if c.endpoint != "" {
		u, err := url.Parse(c.endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			return fmt.Errorf("its endpoint_url is no http or https address") // not shown: it may hold a password
		}
		if c.region == "" {
			c.region = "us-east-1"
		}
	}
	if c.region == "" {
		return fmt.Errorf("it has no region_name, and no endpoint_url")
	}
	switch style {
	case "", "auto":
		c.pathStyle = c.endpoint != ""
	case "path", "virtual":
		c.pathStyle = style == "path"
	default:
		return fmt.Errorf("addressing_style is %q; it must be path, virtual or auto", style)
	}
	return nil
}

// s3Extras are the keys of an extra that are acted on.
func s3Extras() []string {
	return []string{
		"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "session_token", "region_name", "region", "endpoint_url", "verify",
		"service_config", "config_kwargs", "bucket_name", "bucket", "prefix", "addressing_style",
		"role_arn", "profile_name", "assume_role_method", "assume_role_kwargs",
	}
}

func mapping(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}
