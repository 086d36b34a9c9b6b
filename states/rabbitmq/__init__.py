"""rabbitmq_*: what a RabbitMQ node holds, in its wanted state."""
