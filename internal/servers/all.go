package servers

// All lists every kind of server.
var All = []*App{
	&Redis,
	&Nginx,
	&PostgreSQL,
	&Memcached,
	&openMetrics,
}
